-- headwater.letters_to_redrive(namespace_id, only_subscriber, max_letters, partition)
-- Returns the dead letters of a partition that are to be delivered again now.
-- Raises: WH001, WH015. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.letters_to_redrive(namespace_id int, only_subscriber text, max_letters int, partition int, caller headwater.caller DEFAULT current_user)
RETURNS TABLE (subscriber_id text, event jsonb, order_key text, state text, parks_key boolean, attempts jsonb, created_at timestamptz,
               updated_at timestamptz, reason text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'consumer');
    RETURN QUERY
    SELECT l.subscriber_id, l.event, l.order_key, l.state, l.parks_key, l.attempts, l.created_at, l.updated_at, l.reason
      FROM headwater_private.subscribers s, headwater_private.redrivable_letters($1, $2, $3, s.partition, s.partitions) l
     WHERE s.namespace_id = $1 AND s.subscriber_id = $2 AND s.partition = $4
     ORDER BY l.global_sequence;
END
$$;
