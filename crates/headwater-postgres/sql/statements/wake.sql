-- Wakes the readers of a namespace.
SELECT headwater.wake($1)
