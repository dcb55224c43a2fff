-- Many rows a statement: what the table takes at most.
INSERT INTO headwater_private.events (global_sequence, transaction_id, created_at, recorded_at, namespace_id, event_id,
                              event_type, data)
SELECT nextval($1::oid::regclass), (SELECT pg_current_xact_id()::text::bigint), e.created_at, now(), $2, e.event_id,
       e.event_type, e.data::jsonb
  FROM unnest($3::timestamptz[], $4::uuid[], $5::text[], $6::text[]) AS e(created_at, event_id, event_type, data)
