-- Returns whether an instance still owns its node id.
SELECT headwater.is_node($1, $2, $3)
