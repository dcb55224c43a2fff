-- pgmq as the loop calls it.
SELECT msg_id, message::text FROM pgmq.read('bench', 30, 10)
