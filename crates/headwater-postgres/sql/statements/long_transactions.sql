-- Transactions whose events after a cursor are far apart, in order of the first, as this snapshot shows them. All after the cursor is scanned, once: no index
-- tells a transaction's events, since every append would pay for it. $5 and $6 as in headwater.log_page.
SELECT e.transaction_id, min(e.global_sequence), max(e.global_sequence)
  FROM headwater.events e
 WHERE e.namespace_id = $1 AND e.global_sequence > $2
   AND e.recorded_at >= coalesce($5::timestamptz, '-infinity') AND e.recorded_at < coalesce($6::timestamptz, 'infinity')
 GROUP BY e.transaction_id
HAVING max(e.global_sequence) - min(e.global_sequence) >= $3::bigint
 ORDER BY 2
 LIMIT CASE WHEN headwater.require_reader($1) THEN $4::bigint END
