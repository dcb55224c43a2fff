-- headwater_private.seal_past(ns, by_owner)
-- Records the months to which nobody can add any more (see prepare_months), with the sequences that
-- they hold, so that reads open only the leaves that they need. What is recorded stays true
-- forever: a trigger refuses what would change it. Returns how many were sealed.
-- Creating the trigger takes a lock that blocks everybody who still adds to the month. So where
-- namespaces share the month, only the owner of the tables creates it (by_owner). A granted role
-- seals without it, at a moment when nobody appends to its namespace.
-- Raises: WH006. 55P03 if somebody uses a leaf in an unusual way: try again. Locks: SHARE ROW
-- EXCLUSIVE on past leaves (readers go on). Writes: months, the namespace, the triggers.
CREATE OR REPLACE FUNCTION headwater_private.seal_past(ns headwater_private.namespaces, by_owner boolean)
RETURNS int LANGUAGE plpgsql SET lock_timeout = '200ms' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    month  record;
    before headwater_private.months;
    made   headwater_private.months;
    safe   bigint;
    sealed int := 0;
    before_next bigint;
BEGIN
    PERFORM headwater_private.require_proof();
    PERFORM headwater_private.latch(ns.namespace_id, 'months');
    -- The namespace may have been moved to other storage in the meantime, or dropped.
    SELECT n.* INTO ns FROM headwater_private.namespaces n WHERE n.namespace_id = ns.namespace_id;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    SELECT m.* INTO before FROM headwater_private.months m WHERE m.namespace_id = ns.namespace_id ORDER BY m.starts_at DESC LIMIT 1;
    IF ns.storage = 'shared' AND by_owner THEN
        -- For months where somebody was in the way when the first namespace sealed them.
        PERFORM headwater_private.guard_month(l.leaf, false) FROM headwater_private.leaves(ns.namespace_id) l
          WHERE l.ends_at <= ns.tail_from AND NOT l.detaching
            AND EXISTS (SELECT FROM headwater_private.months m WHERE m.leaf = l.leaf);
    END IF;
    FOR month IN SELECT l.* FROM headwater_private.leaves(ns.namespace_id) l
                  WHERE l.ends_at <= ns.sealed_before AND NOT l.detaching AND (before IS NULL OR l.starts_at >= before.ends_at)
                    -- Months that ended before the namespace existed have nothing of it.
                    AND (ns.storage = 'own' OR l.ends_at > ns.tail_from)
                  ORDER BY l.starts_at
    LOOP
        -- Where the month is shared, others may have kept the guard from being created. Without the
        -- guard, no transaction of this namespace may be writing.
        IF NOT headwater_private.guard_month(month.leaf, CASE WHEN ns.storage = 'own' THEN true WHEN by_owner THEN false END)
           AND EXISTS (SELECT FROM headwater.writers(ns.namespace_id)) THEN
            EXIT;
        END IF;
        -- As in horizon: what is in flight lies above `safe`, and the statements after this one see
        -- the rest.
        IF ns.sequence IS NULL THEN
            SELECT c.last_sequence INTO safe FROM headwater_private.counters c WHERE c.namespace_id = ns.namespace_id;
        ELSE
            safe := pg_sequence_last_value(ns.sequence);
            SELECT least(safe, min(w.above_sequence)) INTO safe FROM headwater.writers(ns.namespace_id) w;
        END IF;
        made := NULL;
        EXECUTE format('SELECT min(global_sequence), max(global_sequence) FROM headwater_private.%I WHERE namespace_id = $1', month.leaf)
           INTO made.first_sequence, made.last_sequence USING ns.namespace_id;
        EXECUTE format('SELECT e.global_sequence - 1 FROM headwater_private.%I e
                         WHERE e.namespace_id = $1 AND e.recorded_at >= $2 ORDER BY e.global_sequence LIMIT 1', headwater_private.log_table(ns))
           INTO before_next USING ns.namespace_id, month.ends_at;
        made.high_sequence := greatest(before.high_sequence, made.last_sequence, 0);
        made.complete_to := greatest(before.complete_to, 0, least(safe, coalesce(before_next, made.high_sequence)));
        EXECUTE format('SELECT count(*) FROM (SELECT FROM headwater_private.%I
                                               WHERE namespace_id = $1 AND global_sequence > $2 AND global_sequence <= $3 LIMIT 100000) e',
                       month.leaf)
           INTO made.page_events USING ns.namespace_id, coalesce(before.complete_to, 0), made.complete_to;
        INSERT INTO headwater_private.months AS m (namespace_id, starts_at, ends_at, leaf, first_sequence, last_sequence, high_sequence, complete_to,
                                           page_events)
        VALUES (ns.namespace_id, month.starts_at, month.ends_at, month.leaf, made.first_sequence, made.last_sequence, made.high_sequence,
                made.complete_to, made.page_events)
        RETURNING m.* INTO before;
        sealed := sealed + 1;
    END LOOP;
    UPDATE headwater_private.namespaces n SET tail_after = before.high_sequence, tail_from = before.ends_at
     WHERE n.namespace_id = ns.namespace_id AND sealed > 0;
    RETURN sealed;
END
$$;
