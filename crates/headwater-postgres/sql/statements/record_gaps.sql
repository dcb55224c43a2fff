-- Records permanent gaps: of each, what is in none that is recorded already. In a history only.
SELECT headwater.record_gaps($1, $2, $3)
 WHERE headwater.require_history($4)
