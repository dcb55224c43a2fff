-- What came from a slot after a place, in the order of commits; and in which term of its owner, whether that has caught up.
-- In a history only.
SELECT * FROM headwater.cdc_inbox_page($1, $2, $3)
 WHERE headwater.require_history($4)
