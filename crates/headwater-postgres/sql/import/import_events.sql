-- headwater_private.import_events(namespace_id, events)
-- Stores exported events as they were: sequences, versions, ids and times. `events` is a JSON array
-- of rows, in order of their sequences, which lie above all stored ones. Months that have no table
-- yet get one. Transaction ids come from another time or server, so each gets a bit that no
-- transaction id here has: they still tell transactions apart.
-- Raises: WH002. Locks: see create_leaf. Writes: the events, and the type index, if the namespace
-- has one.
CREATE OR REPLACE FUNCTION headwater_private.import_events(namespace_id int, events jsonb)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns    headwater_private.namespaces;
    last  bigint := headwater_private.highest_event(namespace_id);
    wrong bigint;
BEGIN
    SELECT n.* INTO ns FROM headwater_private.namespaces n WHERE n.namespace_id = import_events.namespace_id;
    SELECT e.global_sequence INTO wrong
      FROM (SELECT r.*, lag(r.global_sequence, 1, last) OVER (ORDER BY r.place) AS before
              FROM (SELECT x.*, row_number() OVER () AS place FROM jsonb_populate_recordset(NULL::headwater_private.events, events) x) r) e
     WHERE (e.global_sequence > e.before AND e.event_id IS NOT NULL AND e.recorded_at IS NOT NULL AND e.created_at IS NOT NULL
            AND e.transaction_id >= 0 AND (e.stream_id IS NULL) = (e.stream_version IS NULL)
            AND coalesce(octet_length(e.stream_id) BETWEEN 1 AND 512 AND e.stream_id !~ E'[\\x01-\\x1f\\x7f]' AND e.stream_version > 0, true)
            AND e.created_at BETWEEN '0001-01-01 00:00:00+00' AND '9999-12-31 23:59:59.999999+00'
            AND e.recorded_at BETWEEN greatest(ns.tail_from, '2000-01-01 00:00:00+00') AND clock_timestamp() + interval '1 day'
            AND headwater_private.are_readable(ARRAY[e.event_type], ARRAY[e.key], ARRAY[e.actor_id], ARRAY[e.headers::text], ARRAY[e.schema_version])) IS NOT TRUE
     LIMIT 1;
    IF FOUND THEN
        PERFORM headwater_private.fail('WH002', format('event %s cannot be imported', coalesce(wrong::text, 'without a sequence')),
            jsonb_build_object('what', 'event', 'value', wrong), 'events come in order of their sequences, complete, and as readers can read them');
    END IF;
    PERFORM headwater_private.create_leaf(import_events.namespace_id, m.month)
       FROM (SELECT DISTINCT date_trunc('month', r.recorded_at, 'UTC') AS month
               FROM jsonb_populate_recordset(NULL::headwater_private.events, events) r) m
      WHERE NOT EXISTS (SELECT FROM headwater_private.leaves(import_events.namespace_id) l WHERE l.starts_at <= m.month AND l.ends_at > m.month);
    -- JSON's null becomes NULL on the way.
    EXECUTE format(
        'INSERT INTO headwater_private.%I (global_sequence, stream_version, transaction_id, created_at, recorded_at, namespace_id, schema_version, event_id,
                                           correlation_id, causation_id, event_type, stream_id, key, actor_id, headers, data)
         SELECT r.global_sequence, r.stream_version, r.transaction_id | 4611686018427387904, r.created_at, r.recorded_at, $1, r.schema_version,
                r.event_id, r.correlation_id, r.causation_id, r.event_type, r.stream_id, r.key, r.actor_id, r.headers, coalesce(r.data, ''null'')
           FROM jsonb_populate_recordset(NULL::headwater_private.events, $2) r', headwater_private.log_table(ns))
      USING import_events.namespace_id, events;
    IF ns.index = 'types' THEN
        INSERT INTO headwater_private.type_index (namespace_id, event_type, global_sequence)
        SELECT import_events.namespace_id, r.event_type, r.global_sequence FROM jsonb_populate_recordset(NULL::headwater_private.events, events) r;
    END IF;
END
$$;
