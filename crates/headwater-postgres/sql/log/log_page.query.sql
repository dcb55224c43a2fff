-- Reads one page of the log, as this snapshot shows it, if the server is in the given history.
SELECT global_sequence, event_id, stream_id, stream_version, event_type, schema_version, data, key, actor_id,
       correlation_id, causation_id, headers, created_at, recorded_at, transaction_id
  FROM headwater.log_page($1, $2, $3, $4, $5, $6, $7, $8, $9)
 WHERE headwater.require_history($10)
