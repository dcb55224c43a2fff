-- headwater_private.kept_position(namespace_id, wanted)
-- Returns where a subscriber stands that is put just after a position: there, or before the first
-- event that is kept. That event stays kept until the transaction ends.
-- Raises: WH016; a NOTICE if the position was moved. Locks: against trimming. Writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.kept_position(namespace_id int, wanted bigint)
RETURNS bigint LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    trimmed bigint;
BEGIN
    PERFORM headwater_private.require_in_log(kept_position.namespace_id, wanted);
    PERFORM headwater_private.latch(kept_position.namespace_id, 'kept', shared => true);
    SELECT n.trimmed_to INTO trimmed FROM headwater_private.namespaces n WHERE n.namespace_id = kept_position.namespace_id;
    IF wanted < trimmed THEN
        RAISE NOTICE 'events up to % are trimmed: it begins after them', trimmed;
    END IF;
    RETURN greatest(wanted, trimmed);
END
$$;
