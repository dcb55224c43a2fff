-- The queue to send to.
SELECT pgmq.create('bench')
