-- Rows read so far from the tables that hold events, by index or by scan.
SELECT coalesce(sum(coalesce(s.idx_tup_fetch, 0) + s.seq_tup_read), 0)::bigint
  FROM pg_stat_user_tables s JOIN pg_partition_tree('headwater_private.events') t ON t.relid = s.relid WHERE t.isleaf
