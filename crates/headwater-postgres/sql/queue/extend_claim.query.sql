-- Keeps a claim for longer. With $1, the commit does not wait for the disk, as in
-- claim_events.query.sql.
SELECT headwater.extend($2, $3, $4, pg_catalog.make_interval(secs => $5)) AS visible_at,
       CASE WHEN $1 THEN pg_catalog.set_config('synchronous_commit', 'off', true) END AS setting
