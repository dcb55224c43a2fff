-- Where a subscriber stands, in a history only, if one is given: a row a partition; or one of them. Of a shared one, the queue knows.
SELECT p.*, (SELECT headwater.begin_history()) AS history FROM headwater.subscriber_position($1, $2, $3) p
 WHERE headwater.require_history($4)
