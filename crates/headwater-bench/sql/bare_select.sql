-- A page of the log without any proof that nothing is missing.
SELECT global_sequence, event_id, stream_id, stream_version, event_type, schema_version, data, key, actor_id,
       correlation_id, causation_id, headers, created_at, recorded_at, transaction_id
  FROM headwater_private.events
 WHERE namespace_id = $1 AND global_sequence > $2
 ORDER BY global_sequence
 LIMIT $3
