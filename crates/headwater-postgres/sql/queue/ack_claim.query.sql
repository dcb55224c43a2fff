-- Finishes a claim, or some of its events. As claim_events, nobody waits for the disk ($1).
SELECT CASE WHEN $1 THEN pg_catalog.set_config('synchronous_commit', 'off', true) END, headwater.ack($2, $3, $4, $5)
