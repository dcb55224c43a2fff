-- Records that an instance works on queues. Returns which of them are paused.
SELECT headwater.attend_queues($1, $2, $3, $4, $5, $6)
