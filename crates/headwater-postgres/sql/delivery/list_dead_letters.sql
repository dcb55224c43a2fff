-- headwater.list_dead_letters(namespace_id, only_subscriber, states, only_sequence, only_type,
-- only_key, error_contains, after_sequence, max_letters)
-- Lists dead letters with their events, by subscriber and sequence.
-- Raises: WH001, WH015. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.list_dead_letters(
    namespace_id int, only_subscriber text, states text[], only_sequence bigint, only_type text, only_key text, error_contains text,
    after_sequence bigint, max_letters bigint, caller headwater.caller DEFAULT current_user
) RETURNS TABLE (subscriber_id text, event jsonb, order_key text, state text, parks_key boolean, attempts jsonb, created_at timestamptz,
                 updated_at timestamptz, reason text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'consumer');
    RETURN QUERY
    SELECT l.subscriber_id, l.event, l.order_key, l.state, l.parks_key, l.attempts, l.created_at, l.updated_at, l.reason
      FROM headwater_private.matching_letters($1, $2, $3, $4, $5, $6, $7, $8) l
     ORDER BY l.subscriber_id, l.global_sequence
     LIMIT $9;
END
$$;
