-- Lists events that are not due yet, the next one first.
SELECT * FROM headwater.list_due($1, $2, $3)
