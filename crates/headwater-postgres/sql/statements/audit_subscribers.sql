-- What subscribers settled, beside what the log holds.
SELECT subscriber_id, after_sequence, position, in_log, settled, sums_differ_by <> 0 AS sums_differ, missing
  FROM headwater.audit_subscribers($1, $2)
