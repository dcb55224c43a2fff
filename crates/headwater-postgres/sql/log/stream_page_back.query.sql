-- Reads one page of a stream, highest version first.
SELECT global_sequence, event_id, stream_id, stream_version, event_type, schema_version, data, key, actor_id,
       correlation_id, causation_id, headers, created_at, recorded_at, transaction_id
  FROM headwater.stream_page_back($1, $2, $3, $4, $5)
