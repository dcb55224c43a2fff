-- How many permanent gaps are recorded.
SELECT count(*) FROM headwater.permanent_gaps WHERE namespace_id = $1
