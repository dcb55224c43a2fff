-- Finishes a claim, or some of its events. With $1, the commit does not wait for the disk, as in
-- claim_events.query.sql.
SELECT CASE WHEN $1 THEN pg_catalog.set_config('synchronous_commit', 'off', true) END, headwater.ack($2, $3, $4, $5)
