-- What was read so far from the tables that hold events: rows, and how often they were looked into.
SELECT coalesce(sum(coalesce(s.idx_tup_fetch, 0) + s.seq_tup_read), 0)::bigint AS rows,
       coalesce(sum(coalesce(s.idx_scan, 0) + s.seq_scan), 0)::bigint AS queries
  FROM pg_stat_user_tables s JOIN pg_partition_tree('headwater_private.events') t ON t.relid = s.relid WHERE t.isleaf
