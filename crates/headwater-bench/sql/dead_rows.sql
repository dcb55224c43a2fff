-- Rows of a schema ($1) that were made dead so far, whether or not they were vacuumed.
SELECT coalesce(sum(s.n_tup_upd + s.n_tup_del), 0)::bigint FROM pg_stat_all_tables s WHERE s.schemaname = $1
