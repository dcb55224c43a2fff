-- Compares what subscribers settled with what the log holds.
SELECT subscriber_id, after_sequence, position, in_log, settled, sums_differ_by <> 0 AS sums_differ,
       coalesce(missing, CASE WHEN settled = in_log + 1 AND -sums_differ_by BETWEEN 1 AND position THEN (-sums_differ_by)::bigint END) AS missing
  FROM headwater.audit_subscribers($1, $2)
