-- headwater_private.newest_state(namespace_id, subscriber_id)
-- Where a queue stands, if there is nothing but the next events of the log: no gaps, open ranges or claims that were skipped, and no clock that
-- went back. `moment` is now, but never before what was looked through.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.newest_state(namespace_id int, subscriber_id text)
RETURNS TABLE (done boolean, frontier bigint, expired_from timestamptz, due_from timestamptz, last_visible_at timestamptz, look_at timestamptz,
               known bigint, moment timestamptz)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT c.done, (c.state).frontier, (c.state).expired_from, (c.state).due_from, (c.state).last_visible_at, (c.state).look_at,
           (c.state).known, greatest(clock_timestamp(), (c.state).moment, (c.state).expired_from, (c.state).due_from)
      FROM (SELECT c.done, c.state FROM headwater_private.claims c
             WHERE c.namespace_id = newest_state.namespace_id AND c.subscriber_id = newest_state.subscriber_id
             ORDER BY c.number DESC LIMIT 1) c
     WHERE (c.state).gaps = '{}' AND (c.state).open = '{}' AND (c.state).skipped = '{}'
       -- As in claim_with_care.
       AND clock_timestamp() >= greatest((c.state).moment, (c.state).expired_from, (c.state).due_from) - interval '1 s';
END
$$;
