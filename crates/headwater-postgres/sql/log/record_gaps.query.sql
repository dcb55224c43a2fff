-- Records permanent gaps, without the parts that are recorded already, if the server is in the
-- given history.
SELECT headwater.record_gaps($1, $2, $3)
 WHERE headwater.require_history($4)
