-- Records permanent gaps, but for those that lie in the nearest one that is recorded.
SELECT headwater.record_gaps($1, $2, $3)
