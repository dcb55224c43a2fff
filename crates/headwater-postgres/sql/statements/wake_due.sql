-- Wakes those who fire events of a namespace when they are due.
SELECT headwater.wake_due($1)
