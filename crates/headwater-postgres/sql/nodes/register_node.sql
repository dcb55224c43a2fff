-- headwater.register_node(namespace, node_id, display_name, description, metadata, heartbeat_every,
-- event_types)
-- Public: in docs/sql.md.
-- Registers a running process under an id of its own: lower case, with - for everything that is not
-- a letter, a digit, a dot, - or _; NULL: an id is made up. A process that registers again is a new
-- incarnation. Heartbeats of its predecessor are refused, and what the predecessor owned (leases,
-- memberships of groups, its broadcasts) can be taken at once. What the predecessor still writes
-- there is fenced by its term. Claims that were made with the node_id as their worker are free at
-- once, too. A process that settles one of them later is refused.
--   heartbeat_every  how often it reports that it lives, 100 ms to 1 hour; it counts as dead after
--                    three silent heartbeats
--   event_types      what it handles, as patterns: * stands for any characters
-- Raises: WH001, WH002, WH015. Locks: the node, what its predecessor owned. Writes: nodes,
-- subscribers, members, queue_workers, claims, retries, dead letters.
CREATE OR REPLACE FUNCTION headwater.register_node(
    namespace       text,
    INOUT node_id   text DEFAULT NULL,
    display_name    text DEFAULT NULL,
    description     text DEFAULT NULL,
    metadata        jsonb DEFAULT NULL,
    heartbeat_every interval DEFAULT '30 s',
    event_types     text[] DEFAULT NULL,
    OUT incarnation bigint,
    OUT instance_id uuid,
    caller headwater.caller DEFAULT current_user
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns     headwater_private.namespaces := headwater_private.open_namespace(register_node.namespace, caller, NULL);
    id     text := headwater_private.node_name(register_node.node_id);
    former uuid;
    at     timestamptz;
BEGIN
    PERFORM headwater_private.check_interval('heartbeat_every', register_node.heartbeat_every, '100 ms', '1 hour', 'heartbeat_every is 100 ms to 1 hour');
    IF jsonb_typeof(register_node.metadata) <> 'object' THEN
        PERFORM headwater_private.fail('WH002', format('invalid metadata of node %L', id), jsonb_build_object('what', 'metadata'),
            'metadata is a JSON object');
    END IF;
    PERFORM headwater_private.check_patterns(register_node.event_types);
    PERFORM headwater_private.check_node(ns.namespace_id, id, caller);
    LOOP
        SELECT n.instance_id INTO former FROM headwater_private.nodes n WHERE n.namespace_id = ns.namespace_id AND n.node_id = id FOR UPDATE;
        EXIT WHEN FOUND;
        at := clock_timestamp();
        INSERT INTO headwater_private.nodes AS n (namespace_id, node_id, incarnation, instance_id, display_name, description, metadata, event_types,
                                          heartbeat_every, registered_at, started_at, last_heartbeat, role)
        VALUES (ns.namespace_id, id, nextval('headwater_private.incarnations'), headwater.uuid_v7(), register_node.display_name,
                register_node.description, coalesce(register_node.metadata, '{}'), coalesce(register_node.event_types, '{}'),
                register_node.heartbeat_every, at, at, at, caller)
        ON CONFLICT DO NOTHING
        RETURNING n.node_id, n.incarnation, n.instance_id INTO register_node.node_id, register_node.incarnation, register_node.instance_id;
        IF FOUND THEN
            RETURN;
        END IF;
    END LOOP;
    at := clock_timestamp();
    UPDATE headwater_private.nodes n
       SET incarnation = nextval('headwater_private.incarnations'), instance_id = headwater.uuid_v7(), display_name = register_node.display_name,
           description = register_node.description, metadata = coalesce(register_node.metadata, '{}'),
           event_types = coalesce(register_node.event_types, '{}'), heartbeat_every = register_node.heartbeat_every, started_at = at,
           last_heartbeat = at, stopped_at = NULL, missed_at = NULL, role = caller
     WHERE n.namespace_id = ns.namespace_id AND n.node_id = id
    RETURNING n.node_id, n.incarnation, n.instance_id INTO register_node.node_id, register_node.incarnation, register_node.instance_id;
    -- A role that only produces owned nothing.
    IF headwater_private.is_granted(ns.namespace_id, caller, 'consumer') THEN
        -- First, since queues are locked before subscribers.
        PERFORM headwater_private.return_claims(ns.namespace_id, id);
        DELETE FROM headwater_private.queue_workers w WHERE w.namespace_id = ns.namespace_id AND w.incarnation = former;
        UPDATE headwater_private.subscribers s
           SET owner_node = NULL, owner_incarnation = NULL, lease_until = NULL, lease = NULL, locked = false, report = NULL
         WHERE s.namespace_id = ns.namespace_id AND s.owner_incarnation = former;
        DELETE FROM headwater_private.members m WHERE m.namespace_id = ns.namespace_id AND m.incarnation = former;
        -- There is no lease here, so only a new term tells the two apart.
        UPDATE headwater_private.subscribers s SET term = nextval('headwater_private.terms')
         WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = 'broadcast:' || id;
    END IF;
END
$$;
