-- Lists the sealed months of a namespace, oldest first, and from when on its events are kept.
SELECT * FROM headwater.month_bounds($1)
