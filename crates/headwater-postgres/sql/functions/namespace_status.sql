-- headwater.namespace_status()
-- Public: in docs/sql.md.
-- The namespaces that the caller was granted, by name, each with the highest event that can be read, how many transactions
-- may still commit events, and whether somebody holds it: then headwater.holders(namespace) says who. One statement for all of them, which
-- reads the locks once and no sequence: to ask a sequence locks it until the transaction ends.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.namespace_status(caller headwater.caller DEFAULT current_user)
RETURNS TABLE (namespace text, ordering text, storage text, last_sequence bigint, writers bigint, is_held boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET jit = off SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    here    constant oid := (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = current_database());
    writing record;
    locking int[];
BEGIN
    WITH locks AS MATERIALIZED (
        SELECT l.locktype, l.classid::bigint AS class, l.relation, l.virtualtransaction AS xact FROM pg_catalog.pg_locks l
         WHERE l.granted AND l.database = here AND l.pid IS DISTINCT FROM pg_backend_pid()
           AND (l.locktype = 'relation' AND l.relation = 'headwater_private.namespaces'::regclass
                OR l.locktype = 'advisory' AND l.objsubid = 1 AND l.mode = 'ShareLock'
                   AND l.classid::bigint >> 24 IN (headwater_private.writer_key(0, 0) >> 56, headwater_private.writer_key(0, 0, false) >> 56))
    ), found AS (
        SELECT (w.class & 16777215)::int AS namespace_id, count(DISTINCT w.xact) AS writers FROM locks w
         WHERE w.locktype = 'advisory' AND EXISTS (SELECT FROM locks r WHERE r.locktype = 'relation' AND r.xact = w.xact)
         GROUP BY 1
    )
    SELECT coalesce(array_agg(f.namespace_id), '{}') AS ids, coalesce(array_agg(f.writers), '{}') AS counts INTO writing FROM found f;
    -- Rows that one writer, or one worker, at a time may lock.
    locking := ARRAY(
        SELECT h.namespace_id
          FROM (SELECT c.namespace_id, c.xmax FROM headwater_private.counters c
                 UNION ALL SELECT q.namespace_id, q.xmax FROM headwater_private.queues q) h
         WHERE h.xmax::text <> '0' AND h.xmax::text IN (SELECT l.transactionid::text FROM pg_catalog.pg_locks l
                                                         WHERE l.locktype = 'transactionid' AND l.granted AND l.mode = 'ExclusiveLock'));
    RETURN QUERY EXECUTE
        'SELECT h.namespace, h.ordering, h.storage, h.newest, coalesce(w.writers, 0), w.writers IS NOT NULL OR h.namespace_id = ANY ($3)
           FROM (' || headwater_private.heads_query(headwater_private.only_granted(caller, NULL)) || ') h
           LEFT JOIN unnest($1, $2) AS w(namespace_id, writers) ON w.namespace_id = h.namespace_id
          ORDER BY h.namespace COLLATE "C"'
        USING writing.ids, writing.counts, locking;
END
$$;
