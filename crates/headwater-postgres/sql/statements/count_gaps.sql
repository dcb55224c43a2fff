-- How many permanent gaps are recorded.
SELECT headwater.count_gaps($1)
