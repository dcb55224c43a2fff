-- headwater_private.event_json(event)
-- Returns an event as dead letters keep it. NULL fields are left out.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.event_json(event headwater_private.events)
RETURNS jsonb LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
BEGIN
    RETURN jsonb_strip_nulls(jsonb_build_object(
               'id', event.event_id, 'stream_id', event.stream_id, 'stream_version', event.stream_version,
               'event_type', event.event_type, 'schema_version', event.schema_version, 'global_sequence', event.global_sequence,
               'key', event.key, 'actor_id', event.actor_id, 'correlation_id', event.correlation_id,
               'causation_id', event.causation_id, 'headers', event.headers, 'created_at', event.created_at,
               'recorded_at', event.recorded_at, 'transaction_id', event.transaction_id))
           -- Its data may hold nulls that have a meaning.
           || CASE WHEN event.data = 'null' THEN '{}' ELSE jsonb_build_object('data', event.data) END;
END
$$;
