-- One row of a stream, without a check of its version.
INSERT INTO headwater_private.events (global_sequence, transaction_id, created_at, recorded_at, namespace_id, event_id,
                              event_type, stream_id, stream_version, data)
VALUES (nextval($1::oid::regclass), pg_current_xact_id()::text::bigint, $2, clock_timestamp(), $3, $4, $5, $6, $7, $8)
RETURNING global_sequence
