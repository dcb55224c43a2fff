-- headwater.is_parked(namespace_id, subscriber_id, order_key, partition)
-- Returns whether events of a key have to wait: behind a letter that parks the key, or behind a
-- parked letter, as in load_subscriber.sql.
-- Raises: WH001, WH015. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.is_parked(
    namespace_id int, subscriber_id text, order_key text, partition int,
    caller headwater.caller DEFAULT current_user
) RETURNS TABLE (term bigint, is_parked boolean) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'consumer');
    RETURN QUERY
    SELECT s.term, EXISTS (SELECT FROM headwater_private.dead_letters d
                            WHERE d.namespace_id = s.namespace_id AND d.subscriber_id = s.subscriber_id AND d.order_key = $3
                              AND d.state IN ('dead', 'parked', 'redriving') AND (d.parks_key OR d.state = 'parked')) AS is_parked
      FROM headwater_private.subscribers s
     WHERE s.namespace_id = $1 AND s.subscriber_id = $2 AND s.partition = $4;
END
$$;
