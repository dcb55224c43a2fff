-- headwater.drop_steps(namespace)
-- Public: in docs/sql.md.
-- Lists the remaining steps for tables of past months. Run each step outside of a transaction, then
-- ask again. A crash in between leaves a state that has a next step. A step that comes late, after
-- others have continued, does no harm: either it checks again, or what it depends on stays true.
--   retire           records that nobody needs a month in the table of current months, or says
--                    whose snapshot may (headwater_private.retire_month)
--   detach, finish   detaches a month from the table of current months, without locking anybody out
--   rewrite          rewrites a month that namespaces share, without the namespaces for which it is
--                    trimmed (headwater_private.rewrite_month)
--   drop             drops a table that nobody needs any more (headwater_private.drop_month)
--   move             continues a move to other storage that has switched (headwater.set_storage)
--   partman          detaches and drops at once, where pg_partman manages the months
--                    (headwater_private.partman_drop)
--   note             the table is gone: call headwater.note_dropped
-- Months that namespaces share are the same for each of them, so each of these namespaces returns
-- their steps.
-- Raises: WH001. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.drop_steps(namespace text, caller headwater.caller DEFAULT current_user)
RETURNS TABLE (starts_at timestamptz, leaf text, step text, statement text) LANGUAGE plpgsql STABLE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns      headwater_private.namespaces := headwater_private.open_namespace(drop_steps.namespace, caller, 'owner');
    parent  text := headwater_private.log_table(ns);
    tree    text := headwater_private.move_target(ns, 'own');
    -- If no namespace shares months any more, any namespace returns the steps for the shared months
    -- that are left.
    shares  boolean := ns.storage = 'shared' OR NOT EXISTS (SELECT FROM headwater_private.namespaces n WHERE n.storage = 'shared');
    retired text[] := ARRAY(SELECT v.leaf FROM headwater_private.leaving_months v WHERE v.proved);
    partman boolean := ns.months_made_by = 'pg_partman' AND coalesce((headwater_private.partman_of(ns.namespace_id)).knows, false);
BEGIN
    RETURN QUERY
    SELECT s.starts_at, s.leaf, s.step,
           CASE s.step WHEN 'partman' THEN format('SELECT headwater_private.partman_drop(%L, %L)', drop_steps.namespace,
                                                  to_char(s.starts_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS"+00"'))
                       WHEN 'move' THEN format('SELECT headwater.set_storage(%L, %L)', drop_steps.namespace, ns.storage)
                       WHEN 'rewrite' THEN format('SELECT headwater_private.rewrite_month(%L)', s.leaf)
                       WHEN 'drop' THEN format('SELECT headwater_private.drop_month(%L)', s.leaf)
                       WHEN 'retire' THEN format('SELECT headwater_private.retire_month(%L)', s.leaf)
                       WHEN 'finish' THEN format('ALTER TABLE headwater_private.%I DETACH PARTITION headwater_private.%I FINALIZE', s.parent, s.leaf)
                       WHEN 'detach' THEN format('ALTER TABLE headwater_private.%I DETACH PARTITION headwater_private.%I%s', s.parent, s.leaf,
                                                 CASE WHEN current_setting('server_version_num')::int >= 140000 THEN ' CONCURRENTLY' ELSE '' END)
           END
      FROM (SELECT m.starts_at, m.leaf, parent AS parent,
                   CASE WHEN l.detaching THEN 'finish' WHEN l.leaf IS NOT NULL AND NOT l.leaf = ANY (retired) THEN 'retire'
                        WHEN l.leaf IS NOT NULL AND partman THEN 'partman'
                        WHEN l.leaf IS NOT NULL THEN 'detach'
                        WHEN to_regclass(format('headwater_private.%I', m.leaf)) IS NULL THEN 'note'
                        -- The month is still part of a table that the namespace moved away from. It
                        -- goes with that table as a whole.
                        WHEN EXISTS (SELECT FROM pg_catalog.pg_inherits i WHERE i.inhrelid = to_regclass(format('headwater_private.%I', m.leaf))) THEN NULL
                        ELSE 'drop' END AS step
              FROM headwater_private.months m
              LEFT JOIN headwater_private.leaves(ns.namespace_id) l ON l.leaf = m.leaf
             WHERE m.namespace_id = ns.namespace_id AND m.trimmed_at IS NOT NULL AND m.dropped_at IS NULL
                   AND m.leaf ~ '^events_n'
             UNION ALL
            (SELECT m.starts_at, m.leaf, NULL, 'move'
               FROM headwater_private.months m
              WHERE m.namespace_id = ns.namespace_id AND m.trimmed_at IS NULL AND m.last_sequence IS NOT NULL
                AND m.leaf ~ '^events_n' = (ns.storage = 'shared')
              ORDER BY m.starts_at LIMIT 1)
             UNION ALL
            SELECT ns.tail_from, tree, NULL, 'move'
             WHERE ns.storage = 'shared' AND to_regclass(format('headwater_private.%I', tree)) IS NOT NULL
               AND NOT EXISTS (SELECT FROM headwater_private.storage_moves v WHERE v.namespace_id = ns.namespace_id)
             UNION ALL
            SELECT l.starts_at, l.leaf, 'events', CASE WHEN l.detaching THEN 'finish' WHEN l.leaf = ANY (retired) THEN 'detach' ELSE 'retire' END
              FROM headwater_private.leaves_of('events') l
             WHERE shares
               AND (l.detaching
                    -- The newest past month stays for a while, because many reads still need it.
                    -- retire_month proves that it may go.
                    OR l.ends_at < date_trunc('month', clock_timestamp(), 'UTC')
                       AND NOT EXISTS (SELECT FROM headwater_private.namespaces n WHERE n.storage = 'shared' AND n.tail_from < l.ends_at)
                       -- Claims may still read it by name. create_leaf names another one when it
                       -- creates the next month.
                       AND NOT EXISTS (SELECT FROM pg_catalog.pg_proc p
                                        WHERE p.oid = 'headwater_private.tail_events()'::regprocedure AND p.prosrc LIKE '%.' || l.leaf))
             UNION ALL
            SELECT m.starts_at, m.leaf, NULL, t.step
              FROM (SELECT g.leaf, min(g.starts_at) AS starts_at
                      FROM (SELECT m.leaf, m.starts_at FROM headwater_private.months m
                             WHERE m.trimmed_at IS NOT NULL AND m.dropped_at IS NULL AND m.leaf !~ '^events_n'
                             UNION ALL
                            SELECT b.leaf, b.left_at FROM headwater_private.left_behind b) g
                     WHERE shares
                     GROUP BY g.leaf) m
             CROSS JOIN LATERAL (SELECT CASE WHEN to_regclass(format('headwater_private.%I', m.leaf)) IS NULL THEN 'note'
                                             WHEN EXISTS (SELECT FROM headwater_private.leaves_of('events') l WHERE l.leaf = m.leaf) THEN NULL
                                             ELSE headwater_private.step_of_month(m.leaf) END AS step) t
             WHERE t.step IS NOT NULL) s
     WHERE s.step IS NOT NULL
     -- PostgreSQL can detach only one partition of a table at a time.
     ORDER BY s.step <> 'finish', s.starts_at;
END
$$;
