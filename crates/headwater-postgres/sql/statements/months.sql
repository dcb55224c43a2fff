-- The sealed months of a namespace, the oldest first, and from where on its events are kept.
SELECT * FROM headwater.month_bounds($1)
