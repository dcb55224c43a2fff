-- headwater.rename_namespace(namespace, new_name, force)
-- Public: in docs/sql.md.
-- Renames a namespace. Events, subscribers, schedules, grants, publications and slots belong to its
-- number and stay unchanged. Running programs know it by its old name: they listen to that name's
-- wake-ups, take session locks made of it, and their next call finds no such namespace. So the call
-- is refused while nodes live, or while somebody has a lease. force => true renames it all the
-- same: leases are taken away, each subscriber begins a new term, and the programs are woken, and
-- fail.
-- Raises: WH001, WH002 (new_name), WH003 (new_name is taken), WH015 (others than the owner), WH037
-- (in use). Locks: the namespace's row, its subscribers. Writes: these.
CREATE OR REPLACE FUNCTION headwater.rename_namespace(
    namespace text, new_name text, force boolean DEFAULT false, caller headwater.caller DEFAULT current_user
) RETURNS headwater.namespace LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns    headwater_private.namespaces := headwater_private.open_namespace(rename_namespace.namespace, caller, 'owner');
    users text[];
BEGIN
    IF rename_namespace.new_name IS NULL OR rename_namespace.new_name !~ '^[a-z][a-z0-9_-]{0,47}$' THEN
        PERFORM headwater_private.fail('WH002', format('invalid namespace %L', left(rename_namespace.new_name, 80)),
            jsonb_build_object('what', 'namespace', 'value', left(rename_namespace.new_name, 80)),
            'a namespace is 1 to 48 characters, lowercase letters, digits, ''-'' and ''_'', and starts with a letter');
    END IF;
    IF rename_namespace.new_name = ns.namespace THEN
        RETURN headwater_private.shown_namespace(ns);
    END IF;
    -- A session that takes a lease at this moment waits, and then finds that the name is gone.
    PERFORM headwater_private.lock_subscribers(ns.namespace_id, NULL);
    SELECT array_agg(DISTINCT u.name ORDER BY u.name) INTO users
      FROM (SELECT format('node %s', n.node_id) FROM headwater_private.nodes n
             WHERE n.namespace_id = ns.namespace_id AND n.stopped_at IS NULL AND n.last_heartbeat >= clock_timestamp() - 3 * n.heartbeat_every
             UNION ALL
            SELECT format('subscriber %s', s.subscriber_id) FROM headwater_private.subscribers s
             WHERE s.namespace_id = ns.namespace_id AND s.owner_incarnation IS NOT NULL AND s.lease_until > clock_timestamp()
             UNION ALL
            SELECT format('slot %s', c.slot) FROM headwater_private.cdc_slots c
             WHERE c.namespace_id = ns.namespace_id AND c.owner_instance IS NOT NULL AND c.lease_until > clock_timestamp()) AS u(name);
    IF users IS NOT NULL AND NOT coalesce(rename_namespace.force, false) THEN
        PERFORM headwater_private.fail('WH037', format('namespace %L is in use by %s', ns.namespace, array_to_string(users[1:5], ', ')),
            jsonb_build_object('namespace', ns.namespace, 'users', to_jsonb(users)),
            'stop the programs that use it and rename it then, or force it: they fail until they are started with the new name');
    END IF;
    BEGIN
        UPDATE headwater_private.namespaces n SET namespace = rename_namespace.new_name WHERE n.namespace_id = ns.namespace_id
        RETURNING n.* INTO ns;
    EXCEPTION WHEN unique_violation THEN
        PERFORM headwater_private.fail('WH003', format('namespace %L exists already', rename_namespace.new_name),
            jsonb_build_object('namespace', rename_namespace.new_name), 'choose another name');
    END;
    IF users IS NOT NULL THEN
        UPDATE headwater_private.subscribers s
           SET term = nextval('headwater_private.terms'), owner_node = NULL, owner_incarnation = NULL, lease_until = NULL, lease = NULL, locked = false,
               report = NULL
         WHERE s.namespace_id = ns.namespace_id;
        DELETE FROM headwater_private.members m WHERE m.namespace_id = ns.namespace_id;
        DELETE FROM headwater_private.queue_workers w WHERE w.namespace_id = ns.namespace_id;
        PERFORM pg_notify('headwater_' || rename_namespace.namespace, '') WHERE headwater_private.may_notify();
    END IF;
    RETURN headwater_private.shown_namespace(ns);
END
$$;
