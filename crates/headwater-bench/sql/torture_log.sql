-- The log as it is, in all tables that have events of it, with the time of each commit.
SELECT e.global_sequence, e.event_id, e.stream_id, e.stream_version, e.key, e.recorded_at, e.headers ? 'broadcast' AS broadcast,
       pg_xact_commit_timestamp(e.transaction_id::text::xid) AS committed_at
  FROM headwater_private.namespaces n CROSS JOIN LATERAL headwater_private.events_in(n.namespace_id, 1, 9223372036854775807) e
 WHERE n.namespace = $1 ORDER BY e.global_sequence
