-- Claims events, and returns them or only their claims ($12). If the claim is a transaction of its
-- own ($1), its commit does not wait for the disk: if a crash loses the claim, its events are only
-- delivered again. The setting is an argument of the call, so it is made even if the call returns
-- no rows.
SELECT c.global_sequence, c.event_id, c.stream_id, c.stream_version, c.event_type, c.schema_version, c.data, c.key, c.actor_id,
       c.correlation_id, c.causation_id, c.headers, c.created_at, c.recorded_at, c.transaction_id, c.claim_id, c.redelivery_count
  FROM (SELECT CASE WHEN $1 THEN pg_catalog.set_config('synchronous_commit', 'off', true) END AS setting OFFSET 0) s
 CROSS JOIN LATERAL headwater.claim($2, coalesce($3, s.setting), $4, pg_catalog.make_interval(secs => $5), $6, $7, $8, $9, $10, $11,
                                     $12) c
