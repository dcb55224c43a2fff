-- Whether an instance is still the node of its id.
SELECT headwater.is_node($1, $2, $3)
