-- Hands back claims, or some of their events: for each claim, the elements `first` to `last` of $3,
-- or the whole claim if they are NULL. The commit waits for the disk: nack.sql says why.
SELECT headwater.nack($1, $2, r.claim_id, ($3::bigint[])[r.first : r.last], pg_catalog.make_interval(secs => r.delay), r.error, r.permanent,
                      r.tried)
  FROM ROWS FROM (pg_catalog.unnest($4::uuid[]), pg_catalog.unnest($5::int[]), pg_catalog.unnest($6::int[]), pg_catalog.unnest($7::float8[]),
                  pg_catalog.unnest($8::text[]), pg_catalog.unnest($9::bool[]), pg_catalog.unnest($10::bool[]))
       AS r(claim_id, first, last, delay, error, permanent, tried)
