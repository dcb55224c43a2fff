-- headwater.holders(namespace)
-- Public: in docs/sql.md.
-- Lists who holds back appends or deliveries of a namespace, or would hold them back if some came:
-- one row for each thing that is held and its holder, oldest first. Without a namespace, it lists
-- only what concerns all of them: locks on tables and commits that wait. It waits for nobody: if
-- somebody has locked a table, it reports only that.
--   holds            log         its transaction may still commit events above `above_sequence`:
--                                readers wait there, or pass it after hold_for
--                    counter     the counter row of a gapless namespace: every append waits
--                    queue       the lock of the shared subscriber `name`: every claim waits
--                    claim       a claim of the shared subscriber `name`: nobody else gets its
--                                events, even if it has expired
--                    subscriber  a row of the subscriber `name`: its checkpoints, leases and pauses
--                                wait
--                    schedule    the schedule `name`, which does not fire in the meantime
--                    due_event   due events, which are not appended in the meantime
--                    settings    the row of the namespace: maintenance waits
--                    latch       what one transaction at a time may do: `name` is months, kept,
--                                firing, …
--                    table       a lock on the table or index `name`, or a place in its queue, that
--                                is in the way of ordinary statements
--                    slot        the replication slot `name`, which nobody reads: the server keeps
--                                its WAL
--                    standby     the synchronous standbys `name`, for which commits wait
--   pid              NULL: a prepared transaction, or no process at all
--   role, granted    the login role that holds it; whether that role has a grant in the namespace
--                    or owns the schema
--   since, age       of its transaction, by the server's clock at this moment. NULL where the
--                    caller may not see that: for sessions of other roles, unless the caller is a
--                    member of pg_read_all_stats
--   waiting          how many sessions of this database wait for it, and waiting_for: how long the
--                    first of them has waited (NULL before PostgreSQL 14)
--   ended_by         the statement that ends it
-- Raises: WH001. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.holders(namespace text DEFAULT NULL, caller headwater.caller DEFAULT current_user)
RETURNS TABLE (holds text, name text, pid int, application_name text, role text, granted boolean, since timestamptz, age interval,
               waiting int, waiting_for interval, above_sequence bigint, ended_by text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '500ms' AS $$
#variable_conflict use_column
DECLARE
    owner   constant oid := (SELECT c.relowner FROM pg_catalog.pg_class c WHERE c.oid = 'headwater_private.namespaces'::regclass);
    here    constant oid := (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = current_database());
    -- The number of the namespace, not its row: the table may be locked.
    ns_id   int;
    rows    record;
    writing record;
    unmade  text[];
    friends oid[];
BEGIN
    -- Read the sessions again, even within the same transaction.
    PERFORM pg_stat_clear_snapshot();
    SELECT NULL::text[] AS holds, NULL::text[] AS names, NULL::oid[] AS relations, NULL::xid[] AS xids, NULL::boolean[] AS whole INTO rows;
    SELECT NULL::bigint[] AS above, NULL::int[] AS pids, NULL::text[] AS names INTO writing;
    BEGIN
        IF holders.namespace IS NOT NULL THEN
            ns_id := (headwater_private.open_namespace(holders.namespace, caller, NULL)).namespace_id;
        END IF;
        SELECT array_agg(r.holds) AS holds, array_agg(r.name) AS names, array_agg(r.relation::oid) AS relations, array_agg(k.xid) AS xids,
               array_agg(k.whole) AS whole
          INTO rows
          FROM headwater_private.held_rows(ns_id) r CROSS JOIN LATERAL headwater_private.lockers(r.row_xmax) k;
        SELECT array_agg(w.above_sequence) AS above, array_agg(w.pid) AS pids, array_agg(w.application_name) AS names INTO writing
          FROM headwater.writers(ns_id) w;
        -- The table is unlogged: after a crash of the server, the next claim creates its queue's
        -- row, and nobody sees that row until it is committed.
        unmade := ARRAY(SELECT s.subscriber_id FROM headwater_private.subscribers s
                         WHERE s.namespace_id = ns_id AND s.partition = 0 AND s.mode = 'shared'
                           AND NOT EXISTS (SELECT FROM headwater_private.queues q
                                            WHERE q.namespace_id = s.namespace_id AND q.subscriber_id = s.subscriber_id));
        friends := ARRAY(SELECT r.oid FROM headwater_private.grants g JOIN pg_catalog.pg_roles r ON r.oid = g.role WHERE g.namespace_id = ns_id);
    EXCEPTION WHEN lock_not_available OR object_not_in_prerequisite_state THEN
        -- Somebody has locked one of these tables, and is found below. Or this is a standby, where
        -- rows have no lockers.
        NULL;
    END;
    RETURN QUERY
    WITH locks AS MATERIALIZED (
        SELECT l.*, (to_jsonb(l) ->> 'waitstart')::timestamptz AS waits_since FROM pg_catalog.pg_locks l
         WHERE coalesce(nullif(l.database, 0), here) = here AND l.pid IS DISTINCT FROM pg_backend_pid()
    ), sessions AS MATERIALIZED (
        SELECT t.transaction, t.pid, p.gid, coalesce(a.application_name, 'prepared transaction ' || p.gid) AS application_name,
               coalesce(a.usesysid, o.oid) AS role_id, coalesce(a.xact_start, a.state_change, p.prepared) AS since
          FROM (SELECT l.virtualtransaction AS transaction, l.pid FROM locks l GROUP BY 1, 2) t
          LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = t.pid
          -- A prepared transaction has no process, but it holds the lock on its own transaction id.
          LEFT JOIN locks x ON t.pid IS NULL AND x.virtualtransaction = t.transaction AND x.locktype = 'transactionid'
          LEFT JOIN pg_catalog.pg_prepared_xacts p ON p.transaction = x.transactionid
          LEFT JOIN pg_catalog.pg_roles o ON o.rolname = p.owner
         WHERE t.pid IS NOT NULL OR p.gid IS NOT NULL
    ), waits AS MATERIALIZED (
        SELECT w.pid, w.waits_since, w.locktype, w.relation, b.pid AS blocker
          FROM locks w
          -- A session that creates a replication slot waits for the transactions of all databases.
          -- Only sessions of this database count.
          JOIN pg_catalog.pg_stat_activity a ON a.pid = w.pid AND a.datid = here
         -- A prepared transaction is 0 here.
         CROSS JOIN LATERAL (SELECT DISTINCT nullif(b.pid, 0) AS pid FROM unnest(pg_blocking_pids(w.pid)) AS b(pid)) b
         WHERE NOT w.granted
    ), held (holds, name, transaction, above_sequence) AS (
        SELECT r.holds, r.name, l.virtualtransaction, NULL::bigint
          FROM unnest(rows.holds, rows.names, rows.relations, rows.xids, rows.whole) AS r(holds, name, relation, xid, whole)
          -- Nothing tells to which transaction an ended subtransaction belonged. It is one of those
          -- that use the table and do not wait.
          JOIN locks l ON l.granted AND CASE WHEN r.whole THEN l.locktype = 'transactionid' AND l.transactionid = r.xid AND l.mode = 'ExclusiveLock'
                                        ELSE l.locktype = 'relation' AND l.relation = r.relation AND l.mode IN ('RowShareLock', 'RowExclusiveLock')
                                             AND NOT EXISTS (SELECT FROM waits w WHERE w.pid = l.pid) END
         UNION
        SELECT 'queue', u.name, l.virtualtransaction, NULL
          FROM unnest(unmade) AS u(name)
          JOIN locks l ON l.locktype = 'relation' AND l.relation = 'headwater_private.queues'::regclass AND l.mode = 'RowExclusiveLock' AND l.granted
           AND NOT EXISTS (SELECT FROM waits w WHERE w.pid = l.pid)
         UNION
        SELECT 'table', c.relname::text, l.virtualtransaction, NULL
          FROM locks l JOIN pg_catalog.pg_class c ON c.oid = l.relation
         WHERE l.locktype = 'relation' AND c.relnamespace = 'headwater_private'::regnamespace AND c.relkind IN ('r', 'p', 'i', 'I')
           AND (c.relname !~ '^events_n\d' OR ns_id IS NULL OR c.relname ~ format('^events_n%s(_|$)', ns_id))
           AND (l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
                -- A session that one of these waits for is in the way of everyone who comes after
                -- it.
                OR l.granted AND EXISTS (SELECT FROM waits w WHERE w.blocker = l.pid AND w.locktype = 'relation' AND w.relation = l.relation))
         UNION
        SELECT 'log', NULL, s.transaction, w.above
          FROM unnest(writing.above, writing.pids, writing.names) AS w(above, pid, name)
          JOIN sessions s ON s.pid = w.pid OR w.pid IS NULL AND s.pid IS NULL AND s.application_name = w.name
    ), found AS (
        SELECT h.holds, h.name, s.pid, s.application_name, s.role_id, s.since, h.above_sequence,
               (SELECT count(DISTINCT w.pid)::int FROM waits w WHERE w.blocker IS NOT DISTINCT FROM s.pid) AS waiting,
               (SELECT min(w.waits_since) FROM waits w WHERE w.blocker IS NOT DISTINCT FROM s.pid) AS waits_since,
               CASE WHEN s.pid IS NULL THEN format('ROLLBACK PREPARED %L', s.gid) ELSE format('SELECT pg_terminate_backend(%s)', s.pid) END AS ended_by
          FROM held h JOIN sessions s ON s.transaction = h.transaction
         UNION ALL
        SELECT 'slot', s.slot_name::text, NULL, NULL, NULL, (to_jsonb(s) ->> 'inactive_since')::timestamptz, NULL, 0, NULL,
               format('SELECT pg_drop_replication_slot(%L)', s.slot_name)
          FROM pg_catalog.pg_replication_slots s
         WHERE NOT s.active AND NOT s.temporary AND s.datoid = here AND s.slot_name ~ format('^headwater_n%s_', ns_id)
         UNION ALL
        SELECT 'standby', current_setting('synchronous_standby_names'), NULL, NULL, NULL, min(a.query_start), NULL, count(*)::int, min(a.query_start),
               'ALTER SYSTEM SET synchronous_standby_names = ''''; SELECT pg_reload_conf()'
          FROM pg_catalog.pg_stat_activity a
         WHERE a.wait_event = 'SyncRep' AND a.datid = here
        HAVING min(a.query_start) < clock_timestamp() - interval '5 seconds'
            OR count(*) > 0 AND NOT EXISTS (SELECT FROM pg_catalog.pg_stat_replication r WHERE coalesce(r.sync_state, 'sync') IN ('sync', 'quorum'))
    )
    SELECT f.holds, f.name, f.pid, f.application_name, r.rolname::text,
           r.rolsuper OR pg_has_role(r.oid, owner, 'USAGE') OR EXISTS (SELECT FROM unnest(friends) o WHERE pg_has_role(r.oid, o, 'USAGE')),
           f.since, clock_timestamp() - f.since, f.waiting, clock_timestamp() - f.waits_since, f.above_sequence, f.ended_by
      FROM found f
      LEFT JOIN pg_catalog.pg_roles r ON r.oid = f.role_id
     ORDER BY f.since NULLS FIRST, f.holds, f.name, f.pid;
END
$$;
