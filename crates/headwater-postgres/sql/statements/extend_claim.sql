-- Keeps a claim for longer. As claim_events, nobody waits for the disk ($1).
SELECT headwater.extend($2, $3, $4, make_interval(secs => $5)) AS visible_at,
       CASE WHEN $1 THEN set_config('synchronous_commit', 'off', true) END AS setting
