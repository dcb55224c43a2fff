-- headwater.writers(namespace_id)
-- Lists the transactions that may still commit events of a namespace, each with the sequence above
-- which those events lie; 0: the sequence is unknown (enter_log). A row may stand for a prepared
-- transaction: then pid is NULL, and application_name names it. `transaction` identifies the
-- transaction while it lasts, and no other. application_name and started_at are NULL where the
-- caller may not see that session's activity.
--
-- Anybody who can connect can take such a lock. It counts unless it is proved that no append took
-- it. An append first reads the table of namespaces, which strangers cannot, and holds the lock on
-- that table until it ends. It also read the value from the sequence, so no value lies below 0. A
-- lock that counts can only hold the horizon back. (pg_locks shows locks on tables as they were a
-- moment before the advisory locks. An append that falls between the two has read the sequence
-- later than the caller of this function, so its events lie above the caller's `head`.)
-- Raises: WH001. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.writers(namespace_id int, caller headwater.caller DEFAULT current_user)
RETURNS TABLE (above_sequence bigint, pid int, application_name text, started_at timestamptz, transaction text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    classes constant bigint[] := ARRAY[headwater_private.writer_key(writers.namespace_id, 0) >> 32,
                                       headwater_private.writer_key(writers.namespace_id, 0, false) >> 32];
    locks bigint[];
    xacts text[];
    pids  int[];
    top   bigint;
BEGIN
    PERFORM headwater_private.authorize(writers.namespace_id, caller, NULL);
    WITH held AS MATERIALIZED (
        SELECT l.locktype, CASE WHEN l.classid::bigint = classes[1] THEN l.objid::bigint END AS low, l.virtualtransaction AS xact, l.pid
          FROM pg_catalog.pg_locks l
         WHERE l.granted AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = current_database())
           AND (l.locktype = 'relation' AND l.relation = 'headwater_private.namespaces'::regclass
                OR l.locktype = 'advisory' AND l.objsubid = 1 AND l.mode = 'ShareLock'
                   AND l.classid::bigint = ANY (classes))
    )
    SELECT array_agg(w.low), array_agg(w.xact), array_agg(w.pid) INTO locks, xacts, pids
      FROM held w
     WHERE w.locktype = 'advisory' AND EXISTS (SELECT FROM held r WHERE r.locktype = 'relation' AND r.xact = w.xact);
    IF locks IS NULL THEN
        RETURN;
    END IF;
    -- Read after the locks, so that no lock lies above it: then the difference rebuilds the upper
    -- half.
    SELECT pg_sequence_last_value(n.sequence) INTO top
      FROM headwater_private.namespaces n WHERE n.namespace_id = writers.namespace_id;
    RETURN QUERY
        SELECT coalesce(top - ((top - w.low) & 4294967295), 0), w.pid,
               coalesce(a.application_name, 'prepared transaction ' || p.gid), coalesce(a.xact_start, p.prepared), w.xact
          FROM unnest(locks, xacts, pids) AS w(low, xact, pid)
          LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = w.pid
          -- A prepared transaction has no process, but it holds the lock on its own transaction id.
          LEFT JOIN LATERAL (
              SELECT p.gid, p.prepared FROM pg_catalog.pg_locks t
                JOIN pg_catalog.pg_prepared_xacts p ON p.transaction = t.transactionid
               WHERE w.pid IS NULL AND t.locktype = 'transactionid' AND t.pid IS NULL AND t.virtualtransaction = w.xact
               LIMIT 1) p ON true
         WHERE w.low IS NULL OR top - ((top - w.low) & 4294967295) >= 0;
END
$$;
