-- The events of a claim.
SELECT e.global_sequence, e.event_id, e.stream_id, e.stream_version, e.event_type, e.schema_version, e.data, e.key, e.actor_id,
       e.correlation_id, e.causation_id, e.headers, e.created_at, e.recorded_at, e.transaction_id
  FROM headwater.claimed_events($1, $2, $3, $4, $5) e
