-- Lists the subscribers, or one of them.
SELECT subscriber_id, mode, partitions, position, last_event_id, pending_gaps, owner_node, owner_incarnation, term,
       extract(epoch FROM lease_left)::float8 AS lease_left, report, paused, pause_reason, lag_events, extract(epoch FROM lag)::float8 AS lag,
       dead_letters, created_at, updated_at
  FROM headwater.subscriber_status($1, $2)
