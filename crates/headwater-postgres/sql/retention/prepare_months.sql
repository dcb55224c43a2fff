-- headwater_private.prepare_months(ns, at, may_make)
-- Keeps the leaves of this month and the next two ready, and seals past months:
-- headwater.maintain_namespace. No month between the last sealed one and leaves_until may be
-- missing: a missing one is created. A session that creates a month holds a lock on the table of
-- current months until its transaction ends. So where namespaces share that table, only the owner
-- may do it (may_make): nobody else can keep others from creating theirs. It waits for nobody for
-- longer than a moment: what is in the way is left to the next call. `at`: the present.
-- Raises: WH002 (at), WH034. Locks: the namespace's row, if it is free, and what create_leaf and
-- partman_months lock. Writes: leaves, the namespace's row.
CREATE OR REPLACE FUNCTION headwater_private.prepare_months(ns headwater_private.namespaces, at timestamptz, may_make boolean)
RETURNS void LANGUAGE plpgsql SET lock_timeout = '200ms' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    this_month  timestamptz;
    until_month timestamptz;
    ready_until timestamptz;
    max_id      uuid;
BEGIN
    PERFORM headwater_private.check_time('at', prepare_months.at, clock_timestamp() + interval '87600 hours');
    this_month := date_trunc('month', prepare_months.at, 'UTC');
    until_month := greatest(ns.leaves_until, (date_trunc('month', prepare_months.at AT TIME ZONE 'UTC') + interval '3 months') AT TIME ZONE 'UTC');
    IF (may_make OR ns.storage = 'own')
       AND EXISTS (SELECT FROM headwater_private.missing_months(ns.namespace_id, ns.sealed_before, until_month)) THEN
        BEGIN
            IF ns.months_made_by = 'pg_partman' THEN
                BEGIN
                    PERFORM headwater_private.partman_months(ns.namespace_id, this_month);
                EXCEPTION WHEN OTHERS THEN
                    -- Events must be stored all the same. A namespace that is being created has no
                    -- events yet.
                    IF ns.leaves_until = ns.sealed_before AND NOT EXISTS (SELECT FROM headwater_private.leaves(ns.namespace_id)) THEN
                        RAISE;
                    END IF;
                    RAISE WARNING 'pg_partman failed, the months are made without it: %', SQLERRM;
                END;
            END IF;
            PERFORM headwater_private.create_leaf(ns.namespace_id, m.starts_at)
               FROM headwater_private.missing_months(ns.namespace_id, ns.sealed_before, until_month) m;
        EXCEPTION WHEN lock_not_available THEN
            -- Somebody else creates them, or is in the way. Appends whose month exists do not need
            -- them yet.
            NULL;
        END;
    END IF;
    SELECT coalesce(min(m.starts_at), until_month) INTO ready_until
      FROM headwater_private.missing_months(ns.namespace_id, ns.sealed_before, until_month) m;
    IF ns.leaves_until < ready_until THEN
        UPDATE headwater_private.namespaces n SET leaves_until = greatest(n.leaves_until, ready_until)
         WHERE n.namespace_id = (SELECT f.namespace_id FROM headwater_private.namespaces f WHERE f.namespace_id = ns.namespace_id
                                    FOR NO KEY UPDATE SKIP LOCKED);
    END IF;

    -- A month is sealed when nobody can still add to it. An append takes its lock before it reads
    -- the clock. So a transaction that holds no lock now will record in this month. A transaction
    -- that holds one, and began before this month (or is prepared, or hidden from us), may still
    -- commit into the last month. In a gapless namespace the counter row is that lock. All this
    -- needs a snapshot that is taken after the locks were read.
    IF ns.sealed_before < this_month AND prepare_months.at <= clock_timestamp()
       AND current_setting('transaction_isolation') IN ('read committed', 'read uncommitted') THEN
        IF ns.ordering = 'gapless' THEN
            PERFORM FROM headwater_private.counters c WHERE c.namespace_id = ns.namespace_id FOR UPDATE SKIP LOCKED;
            IF NOT FOUND THEN
                RETURN;
            END IF;
        ELSIF EXISTS (SELECT FROM headwater.writers(ns.namespace_id) w
                       WHERE w.pid IS NULL OR w.started_at IS NULL OR w.started_at < this_month) THEN
            RETURN;
        END IF;
        EXECUTE format('SELECT e.event_id FROM headwater_private.%I e
                         WHERE e.namespace_id = $1 AND e.recorded_at >= $2 AND e.recorded_at < $3
                         ORDER BY e.event_id DESC LIMIT 1', headwater_private.log_table(ns))
           INTO max_id USING ns.namespace_id, ns.sealed_before, this_month;
        UPDATE headwater_private.namespaces n SET sealed_before = this_month, sealed_max_id = greatest(n.sealed_max_id, max_id)
         WHERE n.sealed_before < this_month
           AND n.namespace_id = (SELECT f.namespace_id FROM headwater_private.namespaces f WHERE f.namespace_id = ns.namespace_id
                                    FOR NO KEY UPDATE SKIP LOCKED);
    END IF;
END
$$;
