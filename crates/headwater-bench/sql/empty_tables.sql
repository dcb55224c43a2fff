-- Every round starts with empty tables, so that nobody pays for what the others wrote.
TRUNCATE headwater_private.events, headwater_private.streams, bench.notified, bench.counted, pgmq.q_bench
