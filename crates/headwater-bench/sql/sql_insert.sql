-- The same events, inserted.
INSERT INTO bench.plain_events (global_sequence, stream_version, transaction_id, created_at, recorded_at, namespace_id, schema_version, event_id, event_type,
                                stream_id, data)
SELECT nextval('bench.plain_sequence'), e.place, pg_current_xact_id()::text::bigint, now(), now(), 1, 1, headwater.uuid_v7(), e.event ->> 'type',
       'stream-' || pg_current_xact_id()::text, e.event -> 'data'
  FROM bench.sql_events s, jsonb_array_elements(s.events) WITH ORDINALITY AS e(event, place) WHERE s.name = $1
