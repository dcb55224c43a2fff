-- headwater.correlation_page(namespace_id, correlation_id, after_sequence, max_events)
-- Returns the events of one correlation, in order.
-- Raises: WH015 if the caller may not read it. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.correlation_page(
    namespace_id int, correlation_id uuid, after_sequence bigint, max_events int,
    caller headwater.caller DEFAULT current_user
) RETURNS SETOF headwater_private.events LANGUAGE plpgsql STABLE SECURITY DEFINER SET enable_seqscan = off SET jit = off
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM headwater_private.authorize(correlation_page.namespace_id, caller, 'consumer');
    RETURN QUERY
    SELECT e.* FROM headwater_private.by_month(
               NULL::headwater_private.events,
               'SELECT e.* FROM %s e WHERE %s AND e.namespace_id = $1 AND e.correlation_id = ($12)[1] AND e.global_sequence > $2
                 ORDER BY e.global_sequence LIMIT $4',
               correlation_page.namespace_id, correlation_page.after_sequence, max_rows => correlation_page.max_events,
               ids => ARRAY[correlation_page.correlation_id]) e
     ORDER BY e.global_sequence LIMIT correlation_page.max_events;
END
$$;
