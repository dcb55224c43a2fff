-- pgmq as its clients call it: a batch, hidden from others for 30 s.
SELECT msg_id, message FROM pgmq.read('bench', 30, $1::int)
