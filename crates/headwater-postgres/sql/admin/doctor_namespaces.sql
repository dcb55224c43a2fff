-- headwater.doctor_namespaces(loss_days)
-- Returns what `headwater doctor` checks in the namespaces, one row each. $1: for how many days it
-- reports a loss.
-- Raises: nothing. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.doctor_namespaces(loss_days int, caller headwater.caller DEFAULT current_user)
RETURNS TABLE (namespace text, months_ahead bigint, missing_month text, default_partition text, without_partman boolean, held text[], not_dropped bigint, losers text[],
               dead_letters text[], paused text[], failed_due bigint, stale_nodes text[])
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    -- Most namespaces that share their months have created and sealed the same ones. Check these
    -- once.
    WITH months AS MATERIALIZED (
        SELECT k.name, k.sealed_before, k.leaves_until,
               (SELECT count(*) FROM headwater_private.leaves(k.namespace_id) l WHERE l.starts_at > clock_timestamp()) AS months_ahead,
               (SELECT to_char(m.starts_at AT TIME ZONE 'UTC', 'YYYY-MM')
                  FROM headwater_private.missing_months(k.namespace_id, k.sealed_before, k.leaves_until) m LIMIT 1) AS missing_month,
               (SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
                 WHERE i.inhparent = to_regclass('headwater_private.' || k.name) AND pg_get_expr(c.relpartbound, c.oid) = 'DEFAULT') AS default_partition
          FROM (SELECT headwater_private.log_table(n) AS name, n.sealed_before, n.leaves_until, min(n.namespace_id) AS namespace_id
                  FROM headwater_private.namespaces n GROUP BY 1, 2, 3) k
    )
    SELECT n.namespace, m.months_ahead, m.missing_month, m.default_partition,
           n.months_made_by = 'pg_partman' AND NOT EXISTS (SELECT FROM pg_extension e WHERE e.extname = 'pg_partman') AS without_partman,
           -- Where nothing is ever due, nobody holds it.
           CASE WHEN n.retention IS NULL THEN '{}'
                ELSE ARRAY(SELECT p.leaf || ' (' || array_to_string(p.held_by, '; ') || ')' FROM headwater.months(n.namespace) p
                            WHERE p.held_by <> '{}' ORDER BY p.starts_at LIMIT 1) END AS held,
           (SELECT count(*) FROM headwater_private.months m
             WHERE m.namespace_id = n.namespace_id AND m.trimmed_at < clock_timestamp() - interval '1 day' AND m.dropped_at IS NULL) AS not_dropped,
           ARRAY(SELECT DISTINCT l.subscriber_id FROM headwater_private.losses l
                  WHERE l.namespace_id = n.namespace_id AND l.lost_at > clock_timestamp() - make_interval(days => $1) ORDER BY 1) AS losers,
           ARRAY(SELECT d.subscriber_id || ' (' || count(*) || ')' FROM headwater_private.dead_letters d
                  WHERE d.namespace_id = n.namespace_id AND d.state IN ('dead', 'parked') GROUP BY d.subscriber_id ORDER BY 1) AS dead_letters,
           ARRAY(SELECT DISTINCT s.subscriber_id FROM headwater_private.subscribers s
                  WHERE s.namespace_id = n.namespace_id AND s.paused ORDER BY 1) AS paused,
           (SELECT count(*) FROM headwater_private.due_events e WHERE e.namespace_id = n.namespace_id AND e.failures > 0) AS failed_due,
           headwater.stale_nodes(n.namespace_id) AS stale_nodes
      FROM headwater_private.namespaces n
      JOIN months m ON m.name = headwater_private.log_table(n) AND m.sealed_before = n.sealed_before AND m.leaves_until = n.leaves_until
      JOIN unnest(headwater_private.granted_to(caller, 'consumer')) AS g(namespace_id) ON g.namespace_id = n.namespace_id
     ORDER BY n.namespace;
END
$$;
