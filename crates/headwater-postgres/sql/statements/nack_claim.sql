-- Hands a claim back, or some of its events. This waits for the disk: who acks the rest of the claim later acks all that is left of it, which
-- must not be these again because the server crashed in between.
SELECT headwater.nack($1, $2, $3, $4, pg_catalog.make_interval(secs => $5), $6, $7, $8)
