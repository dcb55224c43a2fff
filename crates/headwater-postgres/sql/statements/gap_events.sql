-- What is visible in ranges of the log, as this snapshot shows it; $5 and $6 as in headwater.log_page.
SELECT e.global_sequence, e.event_id, e.stream_id, e.stream_version, e.event_type, e.schema_version, e.data, e.key, e.actor_id,
       e.correlation_id, e.causation_id, e.headers, e.created_at, e.recorded_at, e.transaction_id
  FROM unnest($2::bigint[], $3::bigint[]) AS g(first, last)
 CROSS JOIN LATERAL (SELECT * FROM headwater.events e
                      WHERE e.namespace_id = $1 AND e.global_sequence BETWEEN g.first AND g.last
                        AND e.recorded_at >= coalesce($5::timestamptz, '-infinity') AND e.recorded_at < coalesce($6::timestamptz, 'infinity')) e
 ORDER BY e.global_sequence
 LIMIT CASE WHEN headwater.require_reader($1) THEN $4::bigint END
