-- headwater.subscriber_position(namespace_id, subscriber_id, partition)
-- Returns where a subscriber stands, one row per partition, or one partition only. The position of
-- a shared subscriber comes from its queue.
-- Raises: WH001, WH015. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.subscriber_position(
    namespace_id int, subscriber_id text, partition int, caller headwater.caller DEFAULT current_user
) RETURNS TABLE (term bigint, "position" bigint, pending_gaps bigint[], paused boolean, partitions int,
               barrier bigint) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    IF NOT headwater_private.authorize($1, caller, 'consumer') THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT s.term, coalesce(q.position, s.position) AS position, coalesce(q.gaps, headwater_private.ledger_of(s.namespace_id, s.subscriber_id, s.partition, s.pending_gaps)) AS pending_gaps, s.paused, s.partitions,
           s.barrier
      FROM headwater_private.subscribers s
      JOIN headwater_private.namespaces n ON n.namespace_id = s.namespace_id
      LEFT JOIN LATERAL (SELECT k.position, k.gaps FROM headwater.queue_status(n.namespace, s.subscriber_id) k
                          WHERE s.mode = 'shared') q ON true
     WHERE s.namespace_id = $1 AND s.subscriber_id = $2 AND ($3::int IS NULL OR s.partition = $3);
END
$$;
