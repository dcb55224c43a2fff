-- headwater.group_members(namespace_id, subscriber_id)
-- Lists the members of a group whose leases still run.
-- Raises: WH001, WH015. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.group_members(
    namespace_id int, subscriber_id text, caller headwater.caller DEFAULT current_user
) RETURNS TABLE (node text, incarnation uuid) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'consumer');
    RETURN QUERY
    SELECT node, incarnation FROM headwater_private.members
     WHERE namespace_id = $1 AND subscriber_id = $2 AND member_until > clock_timestamp()
     ORDER BY node, incarnation;
END
$$;
