-- The sealed months of a namespace, the oldest first, and from where on its events are kept.
SELECT n.kept_from, n.trimmed_to, m.ends_at, m.high_sequence, m.complete_to, m.page_events, m.trimmed_at IS NOT NULL AS trimmed
  FROM headwater.namespaces n LEFT JOIN headwater.months m ON m.namespace_id = n.namespace_id
 WHERE n.namespace_id = $1
 ORDER BY m.starts_at
