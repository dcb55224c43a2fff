-- Registers a node, or a new incarnation of it.
SELECT node_id, incarnation, instance_id FROM headwater.register_node($1, $2, $3, $4, $5::text::jsonb, pg_catalog.make_interval(secs => $6), $7)
