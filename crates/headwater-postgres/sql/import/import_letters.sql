-- headwater.import_letters(namespace_id, subscriber_ids, event_ids, errors, attempts, created_ats,
-- updated_ats)
-- Stores the dead letters of another event bus whose events are in the log. A letter that exists
-- stays unchanged, whatever happened to it. Returns how many were stored, and how many events the
-- log does not have.
-- Raises: WH001, WH002, WH015. Locks: the rows that it writes. Writes: dead letters.
CREATE OR REPLACE FUNCTION headwater.import_letters(
    namespace_id int, subscriber_ids text[], event_ids uuid[], errors text[], attempts text[], created_ats timestamptz[],
    updated_ats timestamptz[], OUT stored bigint, OUT missing bigint, caller headwater.caller DEFAULT current_user
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'admin');
    PERFORM headwater_private.check_name('subscriber_id', s.id, 255) FROM (SELECT DISTINCT s.id FROM unnest($2) AS s(id)) s;
    PERFORM headwater_private.check_letters(NULL, $5);
    PERFORM headwater_private.check_time('created_at', t.created_at), headwater_private.check_time('updated_at', t.updated_at)
       FROM unnest($6, $7) AS t(created_at, updated_at);
    WITH found AS MATERIALIZED (
        SELECT e AS event, e.event_id FROM headwater.find_events($1, $3) e
    ), letters AS MATERIALIZED (
        SELECT * FROM unnest($2, $3, $4, $5, $6, $7) AS l(subscriber_id, event_id, error, attempts, created_at, updated_at)
    ), made AS (
        INSERT INTO headwater_private.dead_letters (namespace_id, subscriber_id, global_sequence, event_id, event_type, order_key, state, parks_key, error,
                                                    node, attempts, event, term, created_at, updated_at)
        SELECT $1, l.subscriber_id, (f.event).global_sequence, f.event_id, (f.event).event_type,
               coalesce((f.event).key, (f.event).stream_id, f.event_id::text), 'dead', false, l.error, '', l.attempts::jsonb,
               -- A term before the one in which the subscriber begins: nobody here has delivered it
               -- yet.
               headwater_private.event_json(f.event), coalesce(s.began_in_term - 1, 0), l.created_at, l.updated_at
          FROM letters l JOIN found f ON f.event_id = l.event_id
          LEFT JOIN headwater_private.subscribers s ON s.namespace_id = $1 AND s.subscriber_id = l.subscriber_id AND s.partition = 0
        ON CONFLICT DO NOTHING
        RETURNING 1
    )
    SELECT (SELECT count(*) FROM made), (SELECT count(*) FROM letters l WHERE NOT EXISTS (SELECT FROM found f WHERE f.event_id = l.event_id))
      INTO stored, missing;
END
$$;
