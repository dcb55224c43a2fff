-- How many effects each event had, of a subscriber.
SELECT global_sequence, count(*) FROM torture.effects WHERE subscriber = $1 GROUP BY global_sequence
