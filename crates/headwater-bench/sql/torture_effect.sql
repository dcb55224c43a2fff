-- What a transactional subscriber does with an event. No unique key: a second effect must show.
INSERT INTO torture.effects (subscriber, global_sequence, event_id, instance) VALUES ($1, $2, $3, $4)
