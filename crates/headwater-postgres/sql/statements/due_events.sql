-- Events that wait to be due, the next one first.
SELECT * FROM headwater.list_due($1, $2, $3)
