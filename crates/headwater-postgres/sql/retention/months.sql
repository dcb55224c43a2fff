-- headwater.months(namespace, at)
-- Public: in docs/sql.md.
-- Lists the months of a namespace's log, oldest first, as operators see them: months that have a
-- leaf, and months that were trimmed.
--   events      counted if the month was trimmed; otherwise the planner's estimate, or, in a shared
--               month, how many sequences it spans
--   leaf        its table; bytes is the table's size, or, in a shared month, the namespace's part
--               of it by events
--   first_sequence, last_sequence   of a sealed month's events
--   due_at      when it becomes older than the namespace keeps events; NULL: never
--   held_by     who still needs a month that is due: subscriber, partition, reason
-- Raises: WH001. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.months(namespace text, at timestamptz DEFAULT clock_timestamp(), caller headwater.caller DEFAULT current_user)
RETURNS TABLE (starts_at timestamptz, ends_at timestamptz, leaf text, events bigint, bytes bigint, first_sequence bigint,
               last_sequence bigint, sealed_at timestamptz, trimmed_at timestamptz, dropped_at timestamptz, due_at timestamptz, held_by text[])
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns headwater_private.namespaces := headwater_private.open_namespace(months.namespace, caller, NULL);
BEGIN
    RETURN QUERY
    SELECT coalesce(l.starts_at, m.starts_at), coalesce(l.ends_at, m.ends_at), coalesce(m.leaf, l.leaf),
           coalesce(m.events, CASE WHEN o.own THEN nullif(c.reltuples, -1)::bigint ELSE m.last_sequence - m.first_sequence + 1 END),
           CASE WHEN o.own THEN pg_total_relation_size(c.oid)
                ELSE (pg_total_relation_size(c.oid)
                      * least(1, coalesce(m.events, m.last_sequence - m.first_sequence + 1, 0) / greatest(c.reltuples, 1)))::bigint END,
           m.first_sequence, m.last_sequence,
           m.sealed_at, m.trimmed_at, m.dropped_at, d.due_at,
           CASE WHEN d.due_at <= months.at AND m.trimmed_at IS NULL
                THEN ARRAY(SELECT DISTINCT format('%s: %s', h.subscriber_id, h.reason)
                             FROM headwater_private.month_holders(months.namespace, m.first_sequence, m.last_sequence) h ORDER BY 1)
                ELSE '{}' END
      FROM (SELECT l.* FROM headwater_private.leaves(ns.namespace_id) l WHERE ns.storage = 'own' OR l.ends_at > ns.tail_from) l
      FULL JOIN (SELECT m.* FROM headwater_private.months m WHERE m.namespace_id = ns.namespace_id) m ON m.starts_at = l.starts_at
      LEFT JOIN pg_catalog.pg_class c
             ON c.oid = CASE WHEN m.leaf IS NULL THEN l.leaf_id WHEN m.dropped_at IS NULL THEN to_regclass(format('headwater_private.%I', m.leaf)) END
     CROSS JOIN LATERAL (SELECT coalesce(m.leaf, l.leaf) ~ '^events_n' AS own) o
     CROSS JOIN LATERAL (SELECT headwater_private.kept_until(coalesce(l.ends_at, m.ends_at), ns.retention) AS due_at) d
     ORDER BY 1;
END
$$;
