-- A node says that it ends.
SELECT headwater.stop_node($1, $2, $3)
