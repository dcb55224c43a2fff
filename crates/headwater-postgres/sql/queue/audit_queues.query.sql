-- Lists contradictions in the queues of shared subscribers.
SELECT subscriber_id, problem, first_sequence, last_sequence, events FROM headwater.audit_queues($1, $2)
