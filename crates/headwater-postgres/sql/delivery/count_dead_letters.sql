-- headwater.count_dead_letters()
-- Counts the open dead letters, for a monitor: the view headwater.dead_letter_counts. It reads an
-- index of only these letters. The function runs with the rights of the role that queries the view,
-- so each role sees the namespaces that it was granted.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.count_dead_letters(caller headwater.caller DEFAULT current_user)
RETURNS TABLE (namespace text, subscriber_id text, state text, letters bigint, oldest timestamptz) LANGUAGE plpgsql STABLE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT n.namespace, d.subscriber_id, d.state, count(*), min(d.created_at)
      FROM headwater_private.dead_letters d JOIN headwater_private.namespaces n ON n.namespace_id = d.namespace_id
      JOIN unnest(headwater_private.granted_to(caller, 'consumer')) AS g(namespace_id) ON g.namespace_id = n.namespace_id
     WHERE d.state IN ('dead', 'parked', 'redriving')
     GROUP BY n.namespace, d.subscriber_id, d.state
     ORDER BY n.namespace, d.subscriber_id, d.state;
END
$$;
CREATE OR REPLACE VIEW headwater.dead_letter_counts AS SELECT c.* FROM headwater.count_dead_letters() c;
