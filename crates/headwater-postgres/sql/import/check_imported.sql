-- headwater_private.check_imported(ns)
-- Checks that the events of an import fit together, before its months are sealed: each stream has a
-- row with its last version, its versions have no hole and no duplicate, no event id comes twice,
-- and no event belongs to what was trimmed. Reads all events once.
-- Raises: WH002. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.check_imported(ns headwater_private.namespaces)
RETURNS void LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    wrong text;
    twice uuid;
    hidden bigint;
BEGIN
    EXECUTE format('SELECT e.stream_id
                      FROM (SELECT e.stream_id, min(e.stream_version) AS first, max(e.stream_version) AS last, count(*) AS events,
                                   count(DISTINCT e.stream_version) AS versions
                              FROM headwater_private.%I e
                             WHERE e.namespace_id = $1 AND e.stream_id IS NOT NULL GROUP BY e.stream_id) e
                      LEFT JOIN headwater_private.streams s ON s.namespace_id = $1 AND s.stream_id = e.stream_id
                     WHERE (s.version = e.last AND e.events = e.versions AND e.versions = e.last - e.first + 1) IS NOT TRUE
                     LIMIT 1', headwater_private.log_table(ns))
       INTO wrong USING ns.namespace_id;
    IF wrong IS NOT NULL THEN
        PERFORM headwater_private.fail('WH002', format('the export contradicts itself: the versions of stream %L do not fit its events', left(wrong, 80)),
            jsonb_build_object('what', 'stream', 'value', left(wrong, 255)), 'the file is damaged: export it again');
    END IF;
    -- Within a month, its unique index has refused duplicates.
    EXECUTE format('SELECT e.event_id FROM headwater_private.%I e WHERE e.namespace_id = $1 GROUP BY e.event_id HAVING count(*) > 1 LIMIT 1',
                   headwater_private.log_table(ns))
       INTO twice USING ns.namespace_id;
    EXECUTE format('SELECT e.global_sequence FROM headwater_private.%I e
                     WHERE e.namespace_id = $1 AND e.recorded_at < $2 OR e.namespace_id = $1 AND e.global_sequence <= $3 LIMIT 1', headwater_private.log_table(ns))
       INTO hidden USING ns.namespace_id, ns.kept_from, ns.trimmed_to;
    IF hidden IS NOT NULL THEN
        PERFORM headwater_private.fail('WH002', format('the export contradicts itself: event %s is among those that were trimmed', hidden),
            jsonb_build_object('what', 'kept_from', 'value', ns.kept_from), 'the file is damaged: export it again');
    END IF;
    IF twice IS NOT NULL THEN
        PERFORM headwater_private.fail('WH002', format('the export contradicts itself: two events have the id %s', twice),
            jsonb_build_object('what', 'event_id', 'value', twice), 'the file is damaged: export it again');
    END IF;
END
$$;
