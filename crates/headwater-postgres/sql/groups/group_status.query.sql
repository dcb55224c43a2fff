-- Lists the partitions of a group.
SELECT partition, position, pending_gaps, owner_node, owner_incarnation, term, extract(epoch FROM lease_left)::float8 AS lease_left,
       report, lag_events, resize_to, barrier
  FROM headwater.group_status($1, $2)
 ORDER BY partition
