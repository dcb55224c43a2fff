-- headwater_private.begin_move(ns, storage)
-- Creates the place to which the events of open months will be copied (headwater.set_storage), if
-- it does not exist yet. It seals past months first: what is sealed is moved after the switch. If a
-- month has ended since the move began, the move begins anew. Returns whether it did something.
-- Raises: WH038 if last month cannot be sealed yet, because a transaction may still add to it, or
-- if somebody may still read a dropped table of the same name. Locks: latches; what make_leaf
-- locks. Writes: the new table, missing months of the present, storage_moves, left_behind.
CREATE OR REPLACE FUNCTION headwater_private.begin_move(ns headwater_private.namespaces, storage text)
RETURNS boolean LANGUAGE plpgsql SET default_tablespace = '' SET default_table_access_method = 'heap' SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    this_month constant timestamptz := date_trunc('month', clock_timestamp());
    target     constant text := headwater_private.move_target(ns, storage);
    move       headwater_private.storage_moves;
    from_at    timestamptz;
    readers    text;
BEGIN
    SELECT m.* INTO move FROM headwater_private.storage_moves m WHERE m.namespace_id = ns.namespace_id;
    IF move.from_at >= this_month AND move.from_at >= ns.tail_from THEN
        RETURN false;
    END IF;
    PERFORM headwater.maintain_namespace(ns.namespace);
    PERFORM headwater.seal_months(ns.namespace);
    ns := headwater_private.namespace_again(ns.namespace_id);
    -- A namespace whose first month is not over has nothing sealed.
    SELECT greatest(ns.tail_from, min(l.starts_at)) INTO from_at FROM headwater_private.leaves(ns.namespace_id) l
     WHERE ns.storage = 'own' OR l.ends_at > ns.tail_from;
    IF from_at < this_month THEN
        PERFORM headwater_private.refuse_held(ns, 'moved', 'last month is not sealed yet');
    END IF;
    IF move IS NOT NULL THEN
        PERFORM headwater_private.undo_move(ns);
    END IF;
    PERFORM headwater_private.latch(CASE storage WHEN 'own' THEN ns.namespace_id ELSE 0 END, 'months');
    IF storage = 'own' THEN
        -- A session with a snapshot from before the namespace's last table of its own was dropped
        -- would read the new table, and find nothing there. A note from the future belongs to
        -- another server.
        SELECT string_agg(format('%s (pid %s)', coalesce(nullif(s.application_name, ''), 'a session'), s.pid), ', ') INTO readers
          FROM headwater_private.leaving_months v CROSS JOIN LATERAL headwater_private.older_snapshots(v.sealed_below) s
         WHERE v.leaf = target AND v.sealed_below <= pg_snapshot_xmax(pg_current_snapshot());
        IF readers IS NOT NULL THEN
            PERFORM headwater_private.refuse_held(ns, 'moved', 'a transaction may still look for its events in its former tables: ' || readers);
        END IF;
        DELETE FROM headwater_private.leaving_months v WHERE v.leaf = target;
        EXECUTE format('CREATE TABLE headwater_private.%I (LIKE headwater_private.events INCLUDING DEFAULTS INCLUDING CONSTRAINTS)
                        PARTITION BY RANGE (recorded_at)', target);
    END IF;
    PERFORM headwater_private.make_leaves(target, from_at, ns.leaves_until);
    IF storage = 'shared' THEN
        -- Until the switch, nobody reads what is copied there.
        INSERT INTO headwater_private.left_behind (leaf, namespace_id, events)
        SELECT l.leaf, ns.namespace_id, 1 FROM headwater_private.leaves_of(target) l WHERE l.ends_at > from_at
        ON CONFLICT ON CONSTRAINT left_behind_pkey DO NOTHING;
    END IF;
    INSERT INTO headwater_private.storage_moves (namespace_id, storage, from_at) VALUES (ns.namespace_id, begin_move.storage, from_at);
    RETURN true;
END
$$;
