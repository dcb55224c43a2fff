-- Claims events, without them. As claim_events, nobody waits for the disk ($1).
SELECT c.claim_id, c.redelivery_count, c.first_sequence, c.last_sequence, c.sequences, c.types, c.visible_at
  FROM (SELECT CASE WHEN $1 THEN pg_catalog.set_config('synchronous_commit', 'off', true) END AS setting OFFSET 0) s
 CROSS JOIN LATERAL headwater.claim_ranges($2, coalesce($3, s.setting), $4, pg_catalog.make_interval(secs => $5), $6, $7, $8, $9, $10) c
