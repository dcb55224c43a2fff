-- Lets others maintain the months of a namespace again.
SELECT headwater.end_maintenance($1)
