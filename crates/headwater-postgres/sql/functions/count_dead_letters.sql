-- headwater.count_dead_letters()
-- How many dead letters are not done with, for a monitor: the view headwater.dead_letter_counts. Reads an index of just these. The function runs as whoever asks
-- the view, so that each sees the namespaces that were granted.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.count_dead_letters()
RETURNS TABLE (namespace text, subscriber_id text, state text, letters bigint, oldest timestamptz) LANGUAGE sql STABLE AS $$
    SELECT n.namespace, d.subscriber_id, d.state, count(*), min(d.created_at)
      FROM headwater.dead_letters d JOIN headwater.namespaces n ON n.namespace_id = d.namespace_id
     WHERE d.state IN ('dead', 'parked', 'redriving')
     GROUP BY n.namespace, d.subscriber_id, d.state
     ORDER BY n.namespace, d.subscriber_id, d.state
$$;
CREATE OR REPLACE VIEW headwater.dead_letter_counts AS SELECT c.* FROM headwater.count_dead_letters() c;
