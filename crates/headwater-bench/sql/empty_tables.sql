-- Every round starts with empty tables, so that nobody pays for what the others wrote.
TRUNCATE headwater.events, headwater.streams, bench.notified, bench.counted, pgmq.q_bench
