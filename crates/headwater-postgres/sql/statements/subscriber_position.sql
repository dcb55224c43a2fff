-- Where a subscriber stands, a row a partition; or one of them.
SELECT term, position, pending_gaps, paused, partitions, barrier
  FROM headwater.subscribers
 WHERE namespace_id = $1 AND subscriber_id = $2 AND ($3::int IS NULL OR partition = $3)
