-- Counts the events of a sealed month.
SELECT headwater.count_month($1, $2)
