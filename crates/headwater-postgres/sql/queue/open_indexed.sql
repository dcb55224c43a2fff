-- headwater_private.open_indexed(namespace_id, wanted, from_sequence, gaps, room)
-- Finds in the type index the first `room` events that lie in open ranges of a queue, at or after
-- from_sequence and outside the gaps. NULL: the namespace has no index that is ready.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.open_indexed(
    namespace_id int, wanted headwater_private.open_range[], from_sequence bigint, gaps bigint[], room int
) RETURNS bigint[] LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF headwater_private.has_index(open_indexed.namespace_id) THEN
        RETURN headwater_private.typed_sequences(open_indexed.namespace_id,
            ARRAY(SELECT ROW(greatest(o.first_sequence, from_sequence), o.last_sequence, o.event_type)::headwater_private.open_range
                    FROM unnest(wanted) o), room, false, gaps);
    END IF;
    RETURN NULL;
END
$$;
