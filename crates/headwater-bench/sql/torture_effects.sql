-- How many effects each event had.
SELECT global_sequence, count(*) FROM torture.effects GROUP BY global_sequence
