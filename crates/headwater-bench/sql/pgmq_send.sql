-- pgmq as its clients call it.
SELECT pgmq.send('bench', $1::jsonb)
