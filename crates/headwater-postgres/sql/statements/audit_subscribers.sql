-- What subscribers settled, beside what the log holds. The missing one, if it is one.
SELECT subscriber_id, after_sequence, position, in_log, settled, sums_differ_by <> 0 AS sums_differ,
       CASE WHEN in_log = settled + 1 AND sums_differ_by > after_sequence AND sums_differ_by <= position
            THEN sums_differ_by::bigint END AS missing
  FROM headwater.audit_subscribers($1, $2)
