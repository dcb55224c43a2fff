-- headwater_private.check_node(namespace_id, node_id, caller)
-- Refuses a caller that is not a consumer and acts for a node that was registered by a role it does
-- not have. Producers have their own nodes, and no others.
-- Raises: WH015. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.check_node(namespace_id int, node_id text, caller name)
RETURNS void LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    theirs name;
BEGIN
    SELECT n.role INTO theirs FROM headwater_private.nodes n WHERE n.namespace_id = check_node.namespace_id AND n.node_id = check_node.node_id;
    IF FOUND AND coalesce(pg_has_role(caller, to_regrole(quote_ident(theirs)), 'USAGE'), false) IS NOT TRUE
       AND NOT headwater_private.is_granted(check_node.namespace_id, caller, 'consumer') THEN
        PERFORM headwater_private.fail('WH015', format('role %L may not speak for node %L', caller, left(node_id, 80)),
            jsonb_build_object('role', caller, 'kind', 'consumer'), 'another role has registered it: give this process an id of its own');
    END IF;
END
$$;
