-- As claim_events, for patterns of event types.
SELECT c.global_sequence, c.event_id, c.stream_id, c.stream_version, c.event_type, c.schema_version, c.data, c.key, c.actor_id,
       c.correlation_id, c.causation_id, c.headers, c.created_at, c.recorded_at, c.transaction_id, c.claim_id, c.redelivery_count
  FROM (SELECT CASE WHEN $1 THEN pg_catalog.set_config('synchronous_commit', 'off', true) END AS setting OFFSET 0) s
 CROSS JOIN LATERAL headwater.claim_matching($2, coalesce($3, s.setting), $4, pg_catalog.make_interval(secs => $5), $6, $7, $8, $9, $10) c
