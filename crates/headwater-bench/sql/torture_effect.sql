-- What a transactional subscriber does with an event. No unique key: a second effect must show.
INSERT INTO torture.effects (subscriber, global_sequence, instance) VALUES ($1, $2, $3)
