-- headwater.poison_told(namespace, notifier, sequences)
-- Records that a notifier has reported poison. Returns how many sequences it reported for the first
-- time.
-- Raises: WH001, WH002 (no list). Locks, writes: the rows of what was to be reported.
CREATE OR REPLACE FUNCTION headwater.poison_told(namespace text, notifier text, sequences bigint[], caller headwater.caller DEFAULT current_user)
RETURNS int LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns   headwater_private.namespaces := headwater_private.open_namespace(poison_told.namespace, caller, 'consumer');
    told int;
BEGIN
    IF sequences IS NULL THEN
        PERFORM headwater_private.fail('WH002', 'sequences must be a list of events', jsonb_build_object('what', 'sequences', 'value', sequences),
            'give the global_sequence of each');
    END IF;
    DELETE FROM headwater_private.untold_poison u
     WHERE u.namespace_id = ns.namespace_id AND u.notifier = poison_told.notifier AND u.global_sequence = ANY (poison_told.sequences);
    GET DIAGNOSTICS told = ROW_COUNT;
    RETURN told;
END
$$;
