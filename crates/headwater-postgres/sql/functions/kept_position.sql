-- headwater.kept_position(namespace_id, wanted)
-- Where a subscriber stands that is put just after a position: there, or before the first event that is kept. It stays kept until the
-- transaction ends.
-- Raises: nothing but a NOTICE. Locks: against trimming. Writes: nothing.
CREATE OR REPLACE FUNCTION headwater.kept_position(namespace_id int, wanted bigint)
RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    trimmed bigint;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(1213661186, kept_position.namespace_id);
    SELECT n.trimmed_to INTO trimmed FROM headwater.namespaces n WHERE n.namespace_id = kept_position.namespace_id;
    IF wanted < trimmed THEN
        RAISE NOTICE 'events up to % are trimmed: it begins after them', trimmed;
    END IF;
    RETURN greatest(wanted, trimmed);
END
$$;
