-- What `headwater doctor` looks at of the namespaces, a row each. $1: how many days a loss is spoken of.
SELECT n.namespace,
       (SELECT count(*) FROM headwater.leaves(n.namespace_id) l WHERE l.starts_at > clock_timestamp()) AS months_ahead,
       (SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
         WHERE i.inhparent = to_regclass(format('headwater.events_n%s', n.namespace_id)) AND pg_get_expr(c.relpartbound, c.oid) = 'DEFAULT')
           AS default_partition,
       n.partitions = 'pg_partman' AND NOT EXISTS (SELECT FROM pg_extension e WHERE e.extname = 'pg_partman') AS without_partman,
       ARRAY(SELECT p.leaf || ' (' || array_to_string(p.held_by, '; ') || ')' FROM headwater.partitions(n.namespace) p
              WHERE p.held_by <> '{}' ORDER BY p.starts_at LIMIT 1) AS held,
       (SELECT count(*) FROM headwater.months m
         WHERE m.namespace_id = n.namespace_id AND m.trimmed_at < clock_timestamp() - interval '1 day' AND m.dropped_at IS NULL) AS not_dropped,
       ARRAY(SELECT DISTINCT l.subscriber_id FROM headwater.losses l
              WHERE l.namespace_id = n.namespace_id AND l.lost_at > clock_timestamp() - make_interval(days => $1) ORDER BY 1) AS losers,
       ARRAY(SELECT d.subscriber_id || ' (' || count(*) || ')' FROM headwater.dead_letters d
              WHERE d.namespace_id = n.namespace_id AND d.state IN ('dead', 'parked') GROUP BY d.subscriber_id ORDER BY 1) AS dead_letters,
       ARRAY(SELECT DISTINCT s.subscriber_id FROM headwater.subscribers s
              WHERE s.namespace_id = n.namespace_id AND s.paused ORDER BY 1) AS paused,
       (SELECT count(*) FROM headwater.due_events e WHERE e.namespace_id = n.namespace_id AND e.failures > 0) AS failed_due,
       headwater.stale_nodes(n.namespace_id) AS stale_nodes
  FROM headwater.namespaces n
 ORDER BY n.namespace
