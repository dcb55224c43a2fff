-- headwater.drop_namespace(namespace, confirm, force)
-- Public: in docs/sql.md.
-- Removes a namespace for good: its events, streams, subscribers, dead letters, schedules, nodes
-- and grants. `confirm` is its name again. The namespace is gone when this commits. Afterwards
-- headwater.purge_dropped deletes tables with many rows in batches, and drops the namespace's own
-- tables one by one. Tables of past months that it shared are rewritten without it
-- (headwater.drop_steps). Its replication slots are left to their owners (headwater.cdc_orphans).
-- Raises: WH001, WH002 (confirm), WH015 (others than the owner), WH037 (its nodes are alive, and
-- force is not set), WH038 (transactions that use it are open for longer than 5 seconds). Locks:
-- its sequence or counter, for which it waits; what it deletes; a latch.
-- Writes: everything that has its number.
CREATE OR REPLACE FUNCTION headwater.drop_namespace(
    namespace text, confirm text, force boolean DEFAULT false, caller headwater.caller DEFAULT current_user
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '5s' SET client_min_messages = 'warning' SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns     headwater_private.namespaces := headwater_private.open_namespace(drop_namespace.namespace, caller, 'owner');
    alive  text[];
    rest   record;
    recent bigint;
BEGIN
    IF drop_namespace.confirm IS DISTINCT FROM drop_namespace.namespace THEN
        PERFORM headwater_private.fail('WH002', format('invalid confirm %L: it is not the name of the namespace', left(drop_namespace.confirm, 80)),
            jsonb_build_object('what', 'confirm', 'value', left(drop_namespace.confirm, 80)),
            format('to remove the namespace and all its events for good, say confirm => %L', drop_namespace.namespace));
    END IF;
    alive := ARRAY(SELECT n.node_id FROM headwater_private.nodes n
                    WHERE n.namespace_id = ns.namespace_id AND n.stopped_at IS NULL AND n.last_heartbeat >= clock_timestamp() - 3 * n.heartbeat_every
                    ORDER BY n.node_id);
    IF alive <> '{}' AND NOT coalesce(drop_namespace.force, false) THEN
        PERFORM headwater_private.fail('WH037', format('namespace %L is in use by node %L', drop_namespace.namespace, alive[1]),
            jsonb_build_object('namespace', drop_namespace.namespace, 'nodes', alive), 'stop its nodes first, or force the removal');
    END IF;
    -- Nobody can move it to other storage in the meantime.
    PERFORM headwater_private.latch(ns.namespace_id, 'storage');
    -- By its number: another namespace may have the name by now.
    SELECT n.* INTO ns FROM headwater_private.namespaces n WHERE n.namespace_id = ns.namespace_id;
    IF NOT FOUND THEN
        PERFORM headwater_private.fail('WH001', format('namespace %L does not exist', drop_namespace.namespace),
            jsonb_build_object('namespace', drop_namespace.namespace), 'somebody else has dropped it');
    END IF;
    -- About how many events it has in months that are not sealed.
    recent := greatest(coalesce(pg_sequence_last_value(ns.sequence),
                                (SELECT c.last_sequence FROM headwater_private.counters c WHERE c.namespace_id = ns.namespace_id)) - ns.tail_after, 1);
    BEGIN
        -- A transaction that appends holds the sequence or the counter until it ends. So nobody
        -- adds events after this.
        IF ns.sequence IS NOT NULL THEN
            EXECUTE format('DROP SEQUENCE %s', ns.sequence);
            -- The sequence from before the namespace was moved to other storage.
            EXECUTE format('DROP SEQUENCE IF EXISTS headwater_private.sequence_n%1$s, headwater_private.sequence_n%1$s_b', ns.namespace_id);
        END IF;
        DELETE FROM headwater_private.counters c WHERE c.namespace_id = ns.namespace_id;
        PERFORM headwater_private.drop_cron_job(s.task_id) FROM headwater_private.schedules s WHERE s.namespace_id = ns.namespace_id;
        EXECUTE format('DROP PUBLICATION IF EXISTS %I', format('headwater_n%s', ns.namespace_id));
        -- A present month may be detached before all the namespace's rows are purged. Then it is
        -- rewritten without them. purge_dropped finds out whether it has some.
        INSERT INTO headwater_private.left_behind (leaf, namespace_id, events)
        SELECT l.leaf, ns.namespace_id, recent FROM headwater_private.leaves_of('events') l WHERE ns.storage = 'shared' AND l.ends_at > ns.tail_from
        ON CONFLICT DO NOTHING;
        UPDATE headwater_private.months m SET trimmed_at = coalesce(m.trimmed_at, clock_timestamp()) WHERE m.namespace_id = ns.namespace_id;
        INSERT INTO headwater_private.dropped_namespaces (namespace_id) VALUES (ns.namespace_id);
        FOR rest IN SELECT t.name FROM headwater_private.tables_by_namespace() t WHERE NOT t.large LOOP
            EXECUTE format('DELETE FROM headwater_private.%I WHERE namespace_id = $1', rest.name) USING ns.namespace_id;
        END LOOP;
        DELETE FROM headwater_private.namespaces n WHERE n.namespace_id = ns.namespace_id;
    EXCEPTION WHEN lock_not_available THEN
        PERFORM headwater_private.refuse_held(ns, 'dropped', 'transactions that use it are open');
    END;
END
$$;
