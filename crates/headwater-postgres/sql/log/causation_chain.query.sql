-- Reads an event with its causes and its effects.
SELECT global_sequence, event_id, stream_id, stream_version, event_type, schema_version, data, key, actor_id,
       correlation_id, causation_id, headers, created_at, recorded_at, transaction_id
  FROM headwater.causation_chain($1, $2, $3)
