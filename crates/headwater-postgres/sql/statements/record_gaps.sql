-- Records permanent gaps, but for those that lie in the nearest one that is recorded.
-- In a history only.
SELECT headwater.record_gaps($1, $2, $3)
 WHERE headwater.require_history($4)
