-- Which of these subscribers are paused.
SELECT s.subscriber_id FROM headwater.subscribers s
 WHERE s.namespace_id = $1 AND s.subscriber_id = ANY ($2) AND s.partition = 0 AND s.paused
