-- headwater.gap_events(namespace_id, firsts, lasts, max_events, from_at, until_at)
-- What is visible in ranges of the log, as this snapshot shows it; $5 and $6 as in headwater.log_page.
-- Raises: WH001, WH015. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.gap_events(
    namespace_id int, firsts bigint[], lasts bigint[], max_events int, from_at timestamptz,
    until_at timestamptz, caller headwater.caller DEFAULT current_user
) RETURNS TABLE (global_sequence bigint, event_id uuid, stream_id text, stream_version bigint, event_type text,
               schema_version int, data jsonb, key text, actor_id text, correlation_id uuid, causation_id uuid,
               headers jsonb, created_at timestamptz, recorded_at timestamptz, transaction_id bigint) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'consumer');
    RETURN QUERY
    SELECT e.global_sequence, e.event_id, e.stream_id, e.stream_version, e.event_type, e.schema_version, e.data, e.key, e.actor_id,
           e.correlation_id, e.causation_id, e.headers, e.created_at, e.recorded_at, e.transaction_id
      FROM unnest($2::bigint[], $3::bigint[]) AS g(first, last)
     CROSS JOIN LATERAL (SELECT * FROM headwater_private.events e
                          WHERE e.namespace_id = $1 AND e.global_sequence BETWEEN g.first AND g.last
                            AND e.recorded_at >= coalesce($5::timestamptz, '-infinity') AND e.recorded_at < coalesce($6::timestamptz, 'infinity')) e
     ORDER BY e.global_sequence
     LIMIT $4;
END
$$;
