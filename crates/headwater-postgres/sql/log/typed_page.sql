-- headwater_private.typed_page(namespace_id, first_sequence, last_sequence, max_events,
-- event_types, stream, stream_prefix, backwards)
-- Returns a page of a log that has a type index, with the result of headwater.log_page (backwards:
-- log_page_back). The index gives the sequences, and only the months that hold them are opened. The
-- caller has called has_index in the same snapshot.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.typed_page(
    namespace_id int, first_sequence bigint, last_sequence bigint, max_events int, event_types text[], stream text, stream_prefix text, backwards boolean
) RETURNS SETOF headwater_private.events LANGUAGE plpgsql STABLE SET jit = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- This many at a time, so that a page that is also filtered by stream is bounded.
    at_once constant bigint := 1000;
    all_    constant boolean := stream IS NULL AND stream_prefix IS NULL;
    wanted  bigint := max_events;
    size    bigint := CASE WHEN all_ THEN max_events ELSE at_once END;
    low     bigint := coalesce(first_sequence, 0);
    high    bigint := coalesce(last_sequence, 9223372036854775807);
    page    bigint[];
    number  bigint;
BEGIN
    LOOP
        page := headwater_private.typed_sequences(typed_page.namespace_id,
            ARRAY(SELECT ROW(low, high, t.t)::headwater_private.open_range FROM (SELECT DISTINCT unnest(event_types) AS t) t), size, backwards);
        EXIT WHEN page = '{}';
        IF abs(page[cardinality(page)] - page[1]) < 4 * cardinality(page) THEN
            -- Most of the range is wanted: reading it costs less than this many lookups.
            RETURN QUERY SELECT e.* FROM headwater_private.events_in(typed_page.namespace_id, least(page[1], page[cardinality(page)]),
                                                                     greatest(page[1], page[cardinality(page)]), typed_page.event_types) e
                          WHERE (stream IS NULL OR e.stream_id = stream) AND (stream_prefix IS NULL OR starts_with(e.stream_id, stream_prefix))
                          ORDER BY CASE WHEN backwards THEN -e.global_sequence ELSE e.global_sequence END LIMIT wanted;
        ELSE
            RETURN QUERY SELECT e.* FROM headwater_private.events_at(typed_page.namespace_id, page) e
                          WHERE (stream IS NULL OR e.stream_id = stream) AND (stream_prefix IS NULL OR starts_with(e.stream_id, stream_prefix))
                          ORDER BY CASE WHEN backwards THEN -e.global_sequence ELSE e.global_sequence END LIMIT wanted;
        END IF;
        GET DIAGNOSTICS number = ROW_COUNT;
        wanted := wanted - number;
        EXIT WHEN all_ OR wanted <= 0 OR cardinality(page) < size;
        low := CASE WHEN backwards THEN low ELSE page[cardinality(page)] + 1 END;
        high := CASE WHEN backwards THEN page[cardinality(page)] - 1 ELSE high END;
    END LOOP;
END
$$;
