-- headwater_private.switch_storage(ns, storage, max_events)
-- The switch of a move (headwater.set_storage): while no append is under way, it copies the events
-- that are not copied yet, and makes the namespace store its events in the new place. Returns how
-- many it copied.
-- Raises: WH038 if appends are in the way, or more than max_events are to be copied. Locks: the
-- sequence against nextval, or the counter; the latch of months. Writes: the events, the sequence,
-- the namespace, the publication, left_behind.
CREATE OR REPLACE FUNCTION headwater_private.switch_storage(ns headwater_private.namespaces, storage text, max_events int)
RETURNS bigint LANGUAGE plpgsql SET client_min_messages = 'warning' SET default_tablespace = '' SET default_table_access_method = 'heap' SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    -- Few, so that appends wait only for a moment.
    most   constant int := least(max_events, 1000);
    source constant text := headwater_private.log_table(ns);
    target constant text := headwater_private.move_target(ns, storage);
    old    constant regclass := ns.sequence;
    -- There are two names: the sequence of the last move is kept until the next move, for appends
    -- that still use it.
    other  constant text := format('sequence_n%s%s', ns.namespace_id,
                                   CASE WHEN old = to_regclass(format('headwater_private.sequence_n%s', ns.namespace_id)) THEN '_b' ELSE '' END);
    published text;
    move   headwater_private.storage_moves;
    last   bigint;
    rest   bigint;
    leaf   record;
    has    boolean;
    copied bigint;
BEGIN
    BEGIN
        -- First take everything else that may have to be waited for: all appends wait behind the
        -- last of these locks.
        PERFORM headwater_private.latch(ns.namespace_id, 'months');
        PERFORM FROM headwater_private.namespaces n WHERE n.namespace_id = ns.namespace_id FOR NO KEY UPDATE;
        PERFORM headwater_private.latch(ns.namespace_id, 'publication');
        SELECT p.pubname INTO published FROM pg_catalog.pg_publication p WHERE p.pubname = format('headwater_n%s', ns.namespace_id);
        IF published IS NOT NULL THEN
            EXECUTE format('LOCK TABLE ONLY headwater_private.%I, ONLY headwater_private.%I IN SHARE UPDATE EXCLUSIVE MODE', source, target);
        END IF;
        IF old IS NULL THEN
            PERFORM FROM headwater_private.counters c WHERE c.namespace_id = ns.namespace_id FOR UPDATE;
        ELSE
            EXECUTE format('DROP SEQUENCE IF EXISTS headwater_private.%I', other);
            -- Do not wait for a transaction that will not end in time.
            IF EXISTS (SELECT FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
                        WHERE l.locktype = 'relation' AND l.relation = old AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
                          AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = current_database())
                          AND (l.pid IS NULL OR a.xact_start < clock_timestamp() - interval '1 s')) THEN
                RAISE lock_not_available;
            END IF;
            -- This changes nothing, but it takes the lock.
            EXECUTE format('ALTER SEQUENCE %s NO CYCLE', old);
        END IF;
    EXCEPTION WHEN lock_not_available THEN
        PERFORM headwater_private.refuse_held(ns, 'moved', 'transactions that append to it, or that asked how far its log goes, are open');
    END;
    -- Statements after the lock see what its earlier holders have committed.
    ns := headwater_private.namespace_again(ns.namespace_id);
    SELECT m.* INTO move FROM headwater_private.storage_moves m WHERE m.namespace_id = ns.namespace_id;
    EXECUTE format('SELECT count(*) FROM (SELECT FROM headwater_private.%I e
                                           WHERE e.namespace_id = $1 AND e.global_sequence > $2 AND e.recorded_at >= $3 LIMIT $4) e', source)
       INTO rest USING ns.namespace_id, move.copied_to, move.from_at, most + 1;
    IF rest > most OR move.from_at < ns.tail_from THEN
        PERFORM headwater_private.refuse_held(ns, 'moved', CASE WHEN rest > most THEN 'many events came meanwhile' ELSE 'a month has ended meanwhile' END);
    END IF;
    PERFORM headwater_private.make_leaves(target, move.from_at, ns.leaves_until);
    copied := headwater_private.copy_events(source, target, ns.namespace_id, move.copied_to, NULL, move.from_at, storage = 'shared');
    -- Poison may have been repaired since it was copied.
    PERFORM headwater_private.copy_events(source, target, ns.namespace_id, p.global_sequence - 1, p.global_sequence, move.from_at, true)
       FROM headwater_private.poison_events p WHERE p.namespace_id = ns.namespace_id;
    IF old IS NULL THEN
        UPDATE headwater_private.counters c SET storage = switch_storage.storage WHERE c.namespace_id = ns.namespace_id;
    ELSE
        last := pg_sequence_last_value(old);
        -- MINVALUE must be lower, and the last value of an empty log is 0.
        EXECUTE format('ALTER SEQUENCE %s MINVALUE -1 MAXVALUE %s', old, last);
        EXECUTE format('CREATE SEQUENCE headwater_private.%I MINVALUE 0 START %s CACHE 1', other, last);
        PERFORM nextval(format('headwater_private.%I', other)::regclass);
    END IF;
    FOR leaf IN SELECT l.leaf FROM headwater_private.leaves_of('events') l WHERE l.ends_at > move.from_at LOOP
        DELETE FROM headwater_private.left_behind b WHERE b.leaf = leaf.leaf AND b.namespace_id = ns.namespace_id;
        IF storage = 'own' THEN
            EXECUTE format('SELECT EXISTS (SELECT FROM headwater_private.%I e WHERE e.namespace_id = $1)', leaf.leaf) INTO has USING ns.namespace_id;
            INSERT INTO headwater_private.left_behind (leaf, namespace_id, events)
            SELECT leaf.leaf, ns.namespace_id, greatest(headwater_private.newest_sequence(ns) - ns.tail_after, 1) WHERE has;
        END IF;
    END LOOP;
    UPDATE headwater_private.namespaces n
       SET storage = switch_storage.storage, tail_from = move.from_at, sequence = CASE WHEN old IS NOT NULL THEN to_regclass(format('headwater_private.%I', other)) END
     WHERE n.namespace_id = ns.namespace_id
    RETURNING n.* INTO ns;
    DELETE FROM headwater_private.storage_moves m WHERE m.namespace_id = ns.namespace_id;
    IF published IS NOT NULL THEN
        EXECUTE format('ALTER PUBLICATION %I SET TABLE %s', published, headwater_private.published_table(ns));
    END IF;
    RETURN copied;
END
$$;
