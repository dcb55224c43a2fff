-- headwater.leave_groups(namespace, incarnation, subscriber_ids)
-- Ends an instance's membership in these groups. It still owns what it owns: see release_leases.
-- Raises: WH001. Locks, writes: members.
CREATE OR REPLACE FUNCTION headwater.leave_groups(namespace text, incarnation uuid, subscriber_ids text[], caller headwater.caller DEFAULT current_user)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns headwater_private.namespaces := headwater_private.open_namespace(leave_groups.namespace, caller, 'consumer');
BEGIN
    DELETE FROM headwater_private.members m
     WHERE m.namespace_id = ns.namespace_id AND m.subscriber_id = ANY (leave_groups.subscriber_ids)
       AND m.incarnation = leave_groups.incarnation;
END
$$;
