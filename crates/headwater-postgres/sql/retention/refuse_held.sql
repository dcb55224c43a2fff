-- headwater_private.refuse_held(ns, what, reason)
-- Says what cannot be done with a namespace at this moment, and who is in the way: transactions
-- that may still commit events; sessions that hold a lock on its sequence, which strangers cannot
-- take; and, unless it was to be moved, sessions that hold one of its rows.
-- Raises: WH038. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.refuse_held(ns headwater_private.namespaces, what text, reason text)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    holders jsonb;
BEGIN
    SELECT jsonb_agg(to_jsonb(h) ORDER BY h.since, h.pid) INTO holders
      FROM (SELECT w.pid, w.application_name, w.started_at AS since FROM headwater.writers(ns.namespace_id) w
             WHERE w.pid IS DISTINCT FROM pg_backend_pid()
             UNION
            SELECT l.pid, coalesce(a.application_name, 'prepared transaction ' || p.gid), coalesce(a.xact_start, p.prepared)
              FROM pg_catalog.pg_locks l
              LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
              LEFT JOIN pg_catalog.pg_locks t ON l.pid IS NULL AND t.locktype = 'transactionid' AND t.virtualtransaction = l.virtualtransaction
              LEFT JOIN pg_catalog.pg_prepared_xacts p ON p.transaction = t.transactionid
             WHERE l.locktype = 'relation' AND l.relation = ns.sequence AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
               AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = current_database())
             UNION
            SELECT h.pid, h.application_name, h.since FROM headwater.holders(ns.namespace) h
             WHERE h.holds = 'counter' OR refuse_held.what <> 'moved' AND h.pid IS DISTINCT FROM pg_backend_pid()) h;
    PERFORM headwater_private.fail('WH038',
        format('namespace %L cannot be %s now: %s%s', ns.namespace, refuse_held.what, refuse_held.reason,
               (SELECT string_agg(format(', held by %s (pid %s, since %s)', h ->> 'application_name', coalesce(h ->> 'pid', 'none'), h ->> 'since'), '')
                  FROM jsonb_array_elements(holders) h)),
        jsonb_build_object('namespace', ns.namespace, 'holders', coalesce(holders, '[]')), 'try again when they have ended');
END
$$;
