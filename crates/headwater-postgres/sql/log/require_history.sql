-- headwater.require_history(expected)
-- Returns true if the server's history is the expected one, and raises an error otherwise. NULL:
-- any history. Every statement that writes down how far the log was read calls this in the same
-- statement: what was read in another history may not exist in this one, and other events may have
-- its sequences.
-- Every role may call it: it tells nothing about any namespace. Raises: WH050. Locks, writes:
-- nothing.
CREATE OR REPLACE FUNCTION headwater.require_history(expected uuid, caller headwater.caller DEFAULT current_user) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    present uuid;
BEGIN
    IF expected IS NULL THEN
        RETURN true;
    END IF;
    IF NOT pg_is_in_recovery() THEN
        SELECT p.history INTO present FROM headwater_private.present_history p;
    END IF;
    IF present IS DISTINCT FROM expected THEN
        PERFORM headwater_private.fail('WH050', 'the server has another history than the one that was read',
            jsonb_build_object('expected', expected, 'present', present),
            'forget what was read, and begin with the checkpoints as they are: nodes do so by themselves');
    END IF;
    RETURN true;
END
$$;
