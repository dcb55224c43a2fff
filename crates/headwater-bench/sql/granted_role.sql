-- A role without any right, for grants.
CREATE ROLE bench_granted LOGIN PASSWORD 'bench_granted'
