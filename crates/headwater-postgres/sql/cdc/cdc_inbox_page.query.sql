-- Reads what came from a slot after a place, in commit order, if the server is in the given
-- history. Also returns the term of the slot's owner, and whether it has caught up.
SELECT * FROM headwater.cdc_inbox_page($1, $2, $3)
 WHERE headwater.require_history($4)
