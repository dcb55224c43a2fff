-- Releases leases.
SELECT headwater.release_leases($1, $2, $3, $4, $5)
