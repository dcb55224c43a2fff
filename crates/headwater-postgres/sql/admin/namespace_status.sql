-- headwater.namespace_status()
-- Public: in docs/sql.md.
-- Lists the namespaces that the caller was granted, by name. It is one statement for all of them,
-- which reads the locks once. It reads no sequence, because a read of a sequence locks it until the
-- transaction ends.
--   last_sequence   the highest event that can be read
--   writers         how many open transactions may still commit events
--   is_held         whether somebody holds rows of it that others need;
--                   headwater.holders(namespace) says who. It misses two rare cases, which only
--                   holders sees: a row that was locked in a savepoint that was released, and a row
--                   that several transactions share.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.namespace_status(caller headwater.caller DEFAULT current_user)
RETURNS TABLE (namespace text, ordering text, storage text, last_sequence bigint, writers bigint, is_held boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET jit = off SET lock_timeout = '500ms' SET search_path = pg_catalog, pg_temp AS $$
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
    -- Rows of open transactions for which others wait, as in headwater_private.held_rows.
    BEGIN
        locking := ARRAY(
            SELECT DISTINCT h.namespace_id
              FROM (SELECT c.namespace_id, c.xmax FROM headwater_private.counters c
                     UNION ALL SELECT q.namespace_id, q.xmax FROM headwater_private.queues q
                     UNION ALL SELECT s.namespace_id, s.xmax FROM headwater_private.subscribers s
                     UNION ALL SELECT c.namespace_id, c.xmax FROM headwater_private.claims c WHERE NOT c.done
                     UNION ALL SELECT s.namespace_id, s.xmax FROM headwater_private.schedules s
                     UNION ALL SELECT l.namespace_id, l.xmax FROM headwater_private.latches l
                     UNION ALL SELECT n.namespace_id, n.xmax FROM headwater_private.namespaces n) h
              JOIN (SELECT DISTINCT l.transactionid FROM pg_catalog.pg_locks l
                     WHERE l.locktype = 'transactionid' AND l.granted AND l.mode = 'ExclusiveLock'
                       AND l.pid IS DISTINCT FROM pg_backend_pid()) x ON x.transactionid = h.xmax
             WHERE h.xmax <> '0'::xid);
    EXCEPTION WHEN lock_not_available THEN
        -- Somebody has locked one of these tables. holders() reports that.
        locking := '{}';
    END;
    RETURN QUERY EXECUTE
        'SELECT h.namespace, h.ordering, h.storage, h.newest, coalesce(w.writers, 0), w.writers IS NOT NULL OR h.namespace_id = ANY ($3)
           FROM (' || headwater_private.heads_query(headwater_private.only_granted(caller, NULL), headwater_private.tail_tables()) || ') h
           LEFT JOIN unnest($1, $2) AS w(namespace_id, writers) ON w.namespace_id = h.namespace_id
          ORDER BY h.namespace COLLATE "C"'
        USING writing.ids, writing.counts, locking;
END
$$;
