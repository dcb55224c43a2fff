-- headwater.writers(namespace_id)
-- The transactions that may still commit events of a namespace, each with the sequence above which these lie.
-- A row may stand for a prepared transaction (pid is NULL then, and application_name names it).
-- application_name and started_at are NULL where the caller may not see that session's activity.
-- Raises: nothing. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.writers(namespace_id int)
RETURNS TABLE (above_sequence bigint, pid int, application_name text, started_at timestamptz)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    locks bigint[];
    xacts text[];
    pids  int[];
    top   bigint;
BEGIN
    SELECT array_agg(l.objid::bigint), array_agg(l.virtualtransaction), array_agg(l.pid)
      INTO locks, xacts, pids
      FROM pg_catalog.pg_locks l
     WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.mode = 'ShareLock' AND l.granted
       AND l.classid::bigint = (18519::bigint << 16) | writers.namespace_id
       AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = current_database());
    IF locks IS NULL THEN
        RETURN;
    END IF;
    -- Read after the locks, so that no lock lies above it: then the difference rebuilds the upper half.
    SELECT pg_sequence_last_value(n.sequence) INTO top
      FROM headwater.namespaces n WHERE n.namespace_id = writers.namespace_id;
    RETURN QUERY
        SELECT top - ((top - w.low) & 4294967295), w.pid,
               coalesce(a.application_name, 'prepared transaction ' || p.gid), coalesce(a.xact_start, p.prepared)
          FROM unnest(locks, xacts, pids) AS w(low, xact, pid)
          LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = w.pid
          -- A prepared transaction has no process, but it holds the lock on its own transaction id.
          LEFT JOIN LATERAL (
              SELECT p.gid, p.prepared FROM pg_catalog.pg_locks t
                JOIN pg_catalog.pg_prepared_xacts p ON p.transaction = t.transactionid
               WHERE w.pid IS NULL AND t.locktype = 'transactionid' AND t.pid IS NULL AND t.virtualtransaction = w.xact
               LIMIT 1) p ON true;
END
$$;
