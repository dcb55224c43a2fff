-- The log as it is, with the time of each commit.
SELECT global_sequence, event_id, stream_id, stream_version, key, recorded_at, headers ? 'broadcast' AS broadcast,
       pg_xact_commit_timestamp(transaction_id::text::xid) AS committed_at
  FROM headwater_private.events e JOIN headwater_private.namespaces USING (namespace_id)
 WHERE namespace = $1 ORDER BY global_sequence
