-- headwater_private.matching_letters(namespace_id, subscriber_id, states, global_sequence,
-- event_type, order_key, error_contains, after_sequence)
-- Returns the dead letters that match all given conditions. NULL: no condition; states NULL: the
-- open letters.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.matching_letters(
    namespace_id int, subscriber_id text, states text[], global_sequence bigint, event_type text, order_key text,
    error_contains text, after_sequence bigint
) RETURNS SETOF headwater_private.dead_letters
-- A generic plan would read all letters of the namespace, whatever the conditions are.
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_custom_plan SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY
    SELECT d.* FROM headwater_private.dead_letters d
     WHERE d.namespace_id = matching_letters.namespace_id
       AND (matching_letters.subscriber_id IS NULL OR d.subscriber_id = matching_letters.subscriber_id)
       AND d.state = ANY (coalesce(matching_letters.states, ARRAY['dead', 'parked', 'redriving']))
       AND (matching_letters.global_sequence IS NULL OR d.global_sequence = matching_letters.global_sequence)
       AND (matching_letters.event_type IS NULL OR d.event_type = matching_letters.event_type)
       AND (matching_letters.order_key IS NULL OR d.order_key = matching_letters.order_key)
       AND (matching_letters.error_contains IS NULL OR strpos(d.error, matching_letters.error_contains) > 0)
       AND d.global_sequence > coalesce(matching_letters.after_sequence, 0);
END
$$;
