-- headwater.is_node(namespace_id, node_id, instance_id)
-- Returns whether an instance still owns its node id.
-- Raises: WH001, WH015. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.is_node(
    namespace_id int, node_id text, instance_id uuid, caller headwater.caller DEFAULT current_user
) RETURNS boolean LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, NULL);
    RETURN (
    SELECT EXISTS (SELECT FROM headwater_private.nodes n WHERE n.namespace_id = $1 AND n.node_id = $2 AND n.instance_id = $3));
END
$$;
