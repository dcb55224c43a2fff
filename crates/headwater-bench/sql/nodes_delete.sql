-- The message is done with.
SELECT pgmq.delete('bench', $1::bigint)
