-- headwater_private.stored_append(namespace_id, event_ids, event_types, stream_ids)
-- Returns the first result of an append with these events: the sequences and stream versions, in
-- the order of event_ids; NULL if none of the events is stored.
-- Raises: WH005 if only some of them are stored, or one has another type or stream: an id was used
-- again.
-- Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.stored_append(
    namespace_id int, event_ids uuid[], event_types text[], stream_ids text[],
    OUT sequences bigint[], OUT versions bigint[]
) LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found   int;
    misused uuid;
BEGIN
    SELECT count(e.event_id), array_agg(e.global_sequence ORDER BY r.ord), array_agg(e.stream_version ORDER BY r.ord),
           coalesce((array_agg(e.event_id ORDER BY r.ord)
                         FILTER (WHERE e.event_id IS NOT NULL
                                   AND (e.event_type <> r.event_type OR e.stream_id IS DISTINCT FROM r.stream_id)))[1],
                    CASE WHEN count(*) > count(e.event_id)
                         THEN (array_agg(e.event_id ORDER BY r.ord) FILTER (WHERE e.event_id IS NOT NULL))[1] END)
      INTO found, sequences, versions, misused
      FROM unnest(stored_append.event_ids, stored_append.event_types, stored_append.stream_ids)
           WITH ORDINALITY AS r(event_id, event_type, stream_id, ord)
      LEFT JOIN headwater_private.stored_events(stored_append.namespace_id, stored_append.event_ids) e USING (event_id);
    IF found = 0 THEN
        sequences := NULL;
        versions := NULL;
    ELSIF misused IS NOT NULL THEN
        PERFORM headwater_private.fail('WH005',
            format('%s of %s events are stored already, but not as this append has them', found, cardinality(event_ids)),
            jsonb_build_object('event_id', misused, 'stored', found, 'given', cardinality(event_ids)),
            'a retry must repeat the whole append as it was; a new event needs a new id');
    END IF;
END
$$;
