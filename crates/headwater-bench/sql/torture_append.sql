-- One event without a stream, without a NOTIFY: a prepared transaction may not have one.
SELECT sequences FROM headwater.append_batch(
    namespace => $1, request => NULL, event_id => ARRAY[$2::uuid], event_type => ARRAY['Tortured'], data => ARRAY['null'],
    stream_id => NULL, write => NULL, write_offset => NULL, schema_version => NULL, key => ARRAY[$3::text], actor_id => NULL,
    correlation_id => NULL, causation_id => NULL, headers => NULL, created_at => NULL, write_request => NULL,
    write_stream => NULL, write_count => NULL, write_expected => NULL, notify => false, patience_ms => NULL)
