-- headwater.seal_months(namespace)
-- Records the months to which nobody can add any more, with the sequences that they hold:
-- headwater_private.seal_past. Returns how many were sealed.
-- Raises: WH001, WH006. 55P03 if somebody uses a leaf in an unusual way: try again. Locks, writes:
-- see seal_past.
CREATE OR REPLACE FUNCTION headwater.seal_months(namespace text, caller headwater.caller DEFAULT current_user)
RETURNS int LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN headwater_private.seal_past(headwater_private.open_namespace(seal_months.namespace, caller, NULL),
                                       pg_has_role(caller, current_user, 'USAGE'));
END
$$;
