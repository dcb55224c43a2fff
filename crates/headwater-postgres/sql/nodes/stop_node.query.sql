-- A node reports that it ends.
SELECT headwater.stop_node($1, $2, $3)
