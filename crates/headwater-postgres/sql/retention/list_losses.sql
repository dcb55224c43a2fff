-- headwater.list_losses(namespace, only_subscriber)
-- Lists what was trimmed before subscribers, or one subscriber, had handled it, newest first.
-- Raises: WH001, WH015. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.list_losses(namespace text, only_subscriber text, caller headwater.caller DEFAULT current_user)
RETURNS TABLE (subscriber_id text, partition int, first_sequence bigint, last_sequence bigint, events bigint, lost_at timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.open_namespace($1, caller, 'consumer');
    RETURN QUERY
    SELECT l.subscriber_id, l.partition, l.first_sequence, l.last_sequence, l.events, l.lost_at
      FROM headwater_private.losses l JOIN headwater_private.namespaces n ON n.namespace_id = l.namespace_id
     WHERE n.namespace = $1 AND ($2::text IS NULL OR l.subscriber_id = $2)
     ORDER BY l.last_sequence DESC, l.subscriber_id, l.partition
     LIMIT 1000;
END
$$;
