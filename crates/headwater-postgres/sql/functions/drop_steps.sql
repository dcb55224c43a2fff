-- headwater.drop_steps(namespace)
-- Public: in docs/sql.md.
-- What is left to do for the leaves of trimmed months: one step a month, of which each must be run outside of a transaction, and asked for again. A leaf is
-- detached without locking anybody out, then dropped; then headwater.note_dropped. Whoever crashed in between left a state with a next step. Where the
-- partitions are pg_partman's, it does both at once (headwater_private.partman_drop).
-- Raises: WH001. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.drop_steps(namespace text, caller headwater.caller DEFAULT current_user)
RETURNS TABLE (starts_at timestamptz, leaf text, step text, statement text) LANGUAGE plpgsql STABLE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns     headwater_private.namespaces := headwater_private.open_namespace(drop_steps.namespace, caller, 'owner');
    parent text := format('events_n%s', ns.namespace_id);
    partman boolean := ns.partitions = 'pg_partman' AND coalesce((headwater_private.partman_of(ns.namespace_id)).knows, false);
BEGIN
    RETURN QUERY
    SELECT m.starts_at, m.leaf, d.step,
           CASE d.step WHEN 'partman' THEN format('SELECT headwater_private.partman_drop(%L, %L)', drop_steps.namespace,
                                                  to_char(m.starts_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS"+00"'))
                       WHEN 'drop' THEN format('DROP TABLE headwater_private.%I', m.leaf)
                       WHEN 'finish' THEN format('ALTER TABLE headwater_private.%I DETACH PARTITION headwater_private.%I FINALIZE', parent, m.leaf)
                       WHEN 'detach' THEN format('ALTER TABLE headwater_private.%I DETACH PARTITION headwater_private.%I%s', parent, m.leaf,
                                                 CASE WHEN current_setting('server_version_num')::int >= 140000 THEN ' CONCURRENTLY' ELSE '' END)
           END
      FROM headwater_private.months m
      LEFT JOIN headwater_private.leaves(ns.namespace_id) l ON l.leaf = m.leaf
     CROSS JOIN LATERAL (SELECT CASE WHEN l.detaching THEN 'finish' WHEN l.leaf IS NOT NULL AND partman THEN 'partman'
                                     WHEN l.leaf IS NOT NULL THEN 'detach'
                                     WHEN to_regclass(format('headwater_private.%I', m.leaf)) IS NOT NULL THEN 'drop' ELSE 'note' END AS step) d
     WHERE m.namespace_id = ns.namespace_id AND m.trimmed_at IS NOT NULL AND m.dropped_at IS NULL
     -- Of one table, only one partition may be in detachment.
     ORDER BY d.step <> 'finish', m.starts_at;
END
$$;
