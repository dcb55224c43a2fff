-- Returns the position before the first event recorded at or after a time.
SELECT headwater.position_at($1, $2)
