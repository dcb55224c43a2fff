-- What the last round left.
TRUNCATE handled, event_log, pgmq.q_bench
