-- headwater.paused_subscribers(namespace_id, subscriber_ids)
-- Which of these subscribers are paused.
-- Raises: WH001, WH015. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.paused_subscribers(
    namespace_id int, subscriber_ids text[], caller headwater.caller DEFAULT current_user
) RETURNS SETOF text LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'consumer');
    RETURN QUERY
    SELECT s.subscriber_id FROM headwater_private.subscribers s
     WHERE s.namespace_id = $1 AND s.subscriber_id = ANY ($2) AND s.partition = 0 AND s.paused;
END
$$;
