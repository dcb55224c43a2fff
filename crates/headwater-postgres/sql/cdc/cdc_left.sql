-- headwater.cdc_left(namespace, node_id)
-- Returns the namespace's durable slot, if a node that ends leaves it behind: the slot exists, and
-- no other live node wants an inbox. A node that streamed, and has not said so again since the slot
-- got its present reader, was killed. The server keeps its WAL for the slot until somebody reads
-- it, or drops it.
-- Raises: WH001. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.cdc_left(namespace text, node_id text, caller headwater.caller DEFAULT current_user)
RETURNS text LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns   headwater_private.namespaces := headwater_private.open_namespace(cdc_left.namespace, caller, 'consumer');
    slot text;
BEGIN
    SELECT s.slot INTO slot FROM headwater_private.cdc_slots s JOIN pg_replication_slots r ON r.slot_name = s.slot AND NOT r.temporary
     WHERE s.namespace_id = ns.namespace_id
       AND NOT EXISTS (SELECT FROM headwater_private.cdc_nodes c
                         JOIN headwater.node_statuses() n ON n.namespace = ns.namespace AND n.node_id = c.node_id
                        WHERE c.namespace_id = ns.namespace_id AND c.mode = 'inbox' AND c.node_id <> cdc_left.node_id
                          AND n.alive AND n.instance_id = c.instance_id AND NOT (c.state = 'streaming' AND c.reported_at < s.begun_at));
    RETURN slot;
END
$$;
