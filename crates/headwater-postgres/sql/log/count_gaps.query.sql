-- Counts the recorded permanent gaps.
SELECT headwater.count_gaps($1)
