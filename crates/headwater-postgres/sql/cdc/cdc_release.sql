-- headwater.cdc_release(namespace, term)
-- An owner that cannot read a namespace's slot releases it, so that another can take it at once.
-- Returns false if another one owned it already.
-- Raises: WH001. Locks, writes: the slot's row.
CREATE OR REPLACE FUNCTION headwater.cdc_release(namespace text, term bigint, caller headwater.caller DEFAULT current_user)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns headwater_private.namespaces := headwater_private.open_namespace(cdc_release.namespace, caller, 'consumer');
BEGIN
    UPDATE headwater_private.cdc_slots s
       SET owner_instance = NULL, lease_until = clock_timestamp(), reading = false, caught_up = false
     WHERE s.namespace_id = ns.namespace_id AND s.term = cdc_release.term;
    RETURN FOUND;
END
$$;
