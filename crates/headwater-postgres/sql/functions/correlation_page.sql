-- headwater.correlation_page(namespace_id, correlation_id, after_sequence, max_events)
-- The events of one correlation, in order.
-- Raises: WH015 if the caller may not read it. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.correlation_page(
    namespace_id int, correlation_id uuid, after_sequence bigint, max_events int
) RETURNS SETOF headwater.events LANGUAGE sql STABLE AS $$
    SELECT e.* FROM headwater.events e
     WHERE e.namespace_id = correlation_page.namespace_id AND e.correlation_id = correlation_page.correlation_id
       AND e.global_sequence > correlation_page.after_sequence
     ORDER BY e.global_sequence
     LIMIT CASE WHEN headwater.require_reader(correlation_page.namespace_id) THEN correlation_page.max_events END
$$;
