-- headwater_private.counted(namespace_id)
-- Returns the highest sequence that a gapless namespace has handed out, as this snapshot shows it;
-- NULL for a namespace with a sequence. While a transaction appends, its counter row is behind (see
-- append_batch). So that transaction asks the last event, and all others read the row.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.counted(namespace_id int)
RETURNS bigint LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    counter headwater_private.counters;
BEGIN
    SELECT c.* INTO counter FROM headwater_private.counters c WHERE c.namespace_id = counted.namespace_id;
    IF counter.is_open THEN
        RETURN greatest(counter.last_sequence, headwater_private.highest_event(counted.namespace_id));
    END IF;
    RETURN counter.last_sequence;
END
$$;
