-- Removes nodes that were silent for long.
SELECT headwater.forget_nodes($1, pg_catalog.make_interval(secs => $2), $3)
