-- Readers find the queue as after a while: no hint bits left to set.
VACUUM (ANALYZE) pgmq.q_bench
