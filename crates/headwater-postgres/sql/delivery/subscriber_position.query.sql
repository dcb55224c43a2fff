-- Returns where a subscriber stands, one row per partition or one partition only, if the server is
-- in the given history (NULL: any). The position of a shared subscriber comes from its queue.
SELECT p.*, (SELECT headwater.begin_history()) AS history FROM headwater.subscriber_position($1, $2, $3) p
 WHERE headwater.require_history($4)
