-- headwater.maintain_namespace(namespace, at)
-- Public: in docs/sql.md.
-- Keeps the leaves of this month and the next two ready, and seals past months, so that an append need not look
-- for its event ids in them. Appends call it when they must; calling it daily keeps that off their path. No month between the
-- last sealed one and leaves_until may be missing: whichever is, is made.
-- `at` is for tests, and for the owner of the tables: for others, it is now.
-- Locks: the namespace's row, and what create_leaf and partman_months lock. Writes: leaves, the namespace's row. Raises: WH001, WH002 (at), WH034.
CREATE OR REPLACE FUNCTION headwater.maintain_namespace(namespace text, at timestamptz DEFAULT clock_timestamp(), caller headwater.caller DEFAULT current_user)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns          headwater_private.namespaces := headwater_private.open_namespace(maintain_namespace.namespace, caller, NULL);
    moment      timestamptz := CASE WHEN pg_has_role(caller, current_user, 'USAGE') THEN at ELSE clock_timestamp() END;
    this_month  timestamptz;
    until_month timestamptz;
    max_id      uuid;
BEGIN
    PERFORM headwater_private.check_time('at', moment, clock_timestamp() + interval '87600 hours');
    this_month := date_trunc('month', moment, 'UTC');
    until_month := greatest(ns.leaves_until, (date_trunc('month', moment AT TIME ZONE 'UTC') + interval '3 months') AT TIME ZONE 'UTC');
    IF EXISTS (SELECT FROM headwater_private.missing_months(ns.namespace_id, ns.sealed_before, until_month)) THEN
        IF ns.partitions = 'pg_partman' THEN
            BEGIN
                PERFORM headwater_private.partman_months(ns.namespace_id, this_month);
            EXCEPTION WHEN OTHERS THEN
                -- Events must be stored all the same. A namespace that is being made has none yet.
                IF ns.leaves_until = ns.sealed_before AND NOT EXISTS (SELECT FROM headwater_private.leaves(ns.namespace_id)) THEN
                    RAISE;
                END IF;
                RAISE WARNING 'pg_partman failed, the months are made without it: %', SQLERRM;
            END;
        END IF;
        PERFORM headwater_private.create_leaf(ns.namespace_id, m.starts_at)
           FROM headwater_private.missing_months(ns.namespace_id, ns.sealed_before, until_month) m;
    END IF;
    IF ns.leaves_until < until_month THEN
        UPDATE headwater_private.namespaces n SET leaves_until = greatest(n.leaves_until, until_month)
         WHERE n.namespace_id = ns.namespace_id;
    END IF;

    -- A month is sealed when nobody can still add to it. An append takes its lock before it reads the clock, so who
    -- holds none now will record in this month; who holds one, and began before this month (or is prepared, or
    -- hidden from us), may still commit into the last. In a gapless namespace the counter row is that lock.
    -- All this needs a snapshot taken after the look at the locks.
    IF ns.sealed_before < this_month AND moment <= clock_timestamp()
       AND current_setting('transaction_isolation') IN ('read committed', 'read uncommitted') THEN
        IF ns.ordering = 'gapless' THEN
            PERFORM FROM headwater_private.counters c WHERE c.namespace_id = ns.namespace_id FOR UPDATE;
        ELSIF EXISTS (SELECT FROM headwater.writers(ns.namespace_id) w
                       WHERE w.pid IS NULL OR w.started_at IS NULL OR w.started_at < this_month) THEN
            RETURN;
        END IF;
        EXECUTE format('SELECT e.event_id FROM headwater_private.%I e
                         WHERE e.namespace_id = $1 AND e.recorded_at >= $2 AND e.recorded_at < $3
                         ORDER BY e.event_id DESC LIMIT 1', headwater_private.log_table(ns))
           INTO max_id USING ns.namespace_id, ns.sealed_before, this_month;
        UPDATE headwater_private.namespaces n SET sealed_before = this_month, sealed_max_id = greatest(n.sealed_max_id, max_id)
         WHERE n.namespace_id = ns.namespace_id AND n.sealed_before < this_month;
    END IF;
END
$$;
