-- headwater.causation_chain(namespace_id, event_id, max_events)
-- What led to an event and what it led to: its causes up to the first, itself, and all of its effects, in order of the log.
-- Raises: WH015 if the caller may not read it. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.causation_chain(namespace_id int, event_id uuid, max_events int, caller headwater.caller DEFAULT current_user)
RETURNS SETOF headwater_private.events LANGUAGE plpgsql STABLE SECURITY DEFINER SET enable_seqscan = off SET jit = off
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM headwater_private.authorize(causation_chain.namespace_id, caller, 'consumer');
    RETURN QUERY EXECUTE format(
        'WITH RECURSIVE causes AS (
             SELECT e.event_id, e.causation_id FROM (%1$s) e WHERE e.event_id = $2
             UNION
             SELECT e.event_id, e.causation_id FROM causes c CROSS JOIN LATERAL (%2$s) e
         ), effects AS (
             SELECT $2 AS event_id
             UNION
             SELECT e.event_id FROM effects f CROSS JOIN LATERAL (%3$s) e
         )
         SELECT e.* FROM (SELECT c.event_id FROM causes c UNION SELECT f.event_id FROM effects f) x CROSS JOIN LATERAL (%4$s) e
          ORDER BY e.global_sequence LIMIT $3',
        headwater_private.over_months('SELECT e.event_id, e.causation_id FROM %s e WHERE %s AND e.namespace_id = $1 AND e.event_id = $2', $1),
        headwater_private.over_months('SELECT e.event_id, e.causation_id FROM %s e WHERE %s AND e.namespace_id = $1 AND e.event_id = c.causation_id', $1),
        headwater_private.over_months('SELECT e.event_id FROM %s e WHERE %s AND e.namespace_id = $1 AND e.causation_id = f.event_id', $1),
        headwater_private.over_months('SELECT e.* FROM %s e WHERE %s AND e.namespace_id = $1 AND e.event_id = x.event_id', $1))
        USING $1, $2, $3;
END
$$;
