-- Hands a claim back, or some of its events. As claim_events, nobody waits for the disk ($1).
SELECT CASE WHEN $1 THEN set_config('synchronous_commit', 'off', true) END,
       headwater.nack($2, $3, $4, $5, make_interval(secs => $6), $7, $8, $9)
