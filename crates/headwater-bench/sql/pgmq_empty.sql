-- What the last round left.
TRUNCATE pgmq.q_bench
