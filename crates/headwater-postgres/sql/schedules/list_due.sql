-- headwater.list_due(namespace_id, only_failed, max_events)
-- Lists events that are not due yet, the next one first.
-- Raises: WH001, WH015. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.list_due(
    namespace_id int, only_failed boolean, max_events bigint, caller headwater.caller DEFAULT current_user
) RETURNS TABLE (event_id uuid, stream_id text, event_type text, schema_version int, data jsonb, key text,
               actor_id text, correlation_id uuid, causation_id uuid, headers jsonb, created_at timestamptz,
               due_at timestamptz, fire_at timestamptz, failures int, error text) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'producer');
    RETURN QUERY
    SELECT event_id, stream_id, event_type, schema_version, data, key, actor_id, correlation_id, causation_id, headers, created_at,
           due_at, fire_at, failures, error
      FROM headwater_private.due_events
     WHERE namespace_id = $1 AND (NOT $2 OR failures > 0)
     ORDER BY fire_at, due_id
     LIMIT $3;
END
$$;
