-- headwater.begin_turn(namespace_id, subscriber_id, term, partition, lives)
-- Records that the owner begins to handle events, only in its term. Returns whether the last owner
-- ended without recording it. Also returns which event that owner had begun, and how many times, if
-- it recorded that. lives: the last owner was this one.
-- Raises: WH001, WH015. Locks, writes: the subscriber's row.
CREATE OR REPLACE FUNCTION headwater.begin_turn(
    namespace_id int, subscriber_id text, term bigint, partition int, lives boolean, caller headwater.caller DEFAULT current_user
) RETURNS TABLE (died boolean, begun_event uuid, begun_times int) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'consumer');
    RETURN QUERY
    WITH was AS (
        SELECT s.handling AND NOT $5 AS died, s.begun_event, s.begun_times
          FROM headwater_private.subscribers s
         WHERE s.namespace_id = $1 AND s.subscriber_id = $2 AND s.partition = $4
    ), begun AS (
        UPDATE headwater_private.subscribers s
           SET handling = true, begun_event = CASE WHEN $5 THEN NULL ELSE s.begun_event END,
               begun_times = CASE WHEN $5 THEN 0 ELSE s.begun_times END
         WHERE s.namespace_id = $1 AND s.subscriber_id = $2 AND s.partition = $4 AND ($3 IS NULL OR s.term = $3)
        RETURNING s.term
    )
    SELECT was.died, was.begun_event, was.begun_times FROM was, begun;
END
$$;
