-- How many effects each event had, of a subscriber.
SELECT event_id, count(*) FROM torture.effects WHERE subscriber = $1 GROUP BY event_id
