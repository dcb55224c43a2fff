-- Where a subscriber stands.
SELECT term, position, pending_gaps, paused
  FROM headwater.subscribers
 WHERE namespace_id = $1 AND subscriber_id = $2 AND partition = 0
