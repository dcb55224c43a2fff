-- Lists the queues of the shared subscribers of all namespaces.
SELECT namespace, subscriber_id, "position", waiting, oldest_waiting_seconds AS oldest_waiting, claims, in_flight, retries, left_behind, dead_letters,
       event_types, workers, rate, paused
  FROM headwater.queue_metrics
 ORDER BY namespace, subscriber_id
