-- Returns the events of claims that were made without them.
SELECT c.global_sequence, c.event_id, c.stream_id, c.stream_version, c.event_type, c.schema_version, c.data, c.key, c.actor_id,
       c.correlation_id, c.causation_id, c.headers, c.created_at, c.recorded_at, c.transaction_id, c.claim_id, c.redelivery_count
  FROM headwater.read_claims($1, $2, $3) c
