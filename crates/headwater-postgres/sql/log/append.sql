-- headwater.append(namespace, stream_id, events, expected_version)
-- Public: in docs/sql.md.
-- Appends events to a stream, in the caller's transaction, all or none. `events` is one JSON object
-- or an array of objects. Only "type" is required:
--     {"type": "OrderPlaced", "data": {…}, "id": uuid, "key": …, "schema_version": 1,
--      "actor_id": …, "correlation_id": uuid, "causation_id": uuid, "headers": {…},
--      "created_at": timestamp}
-- expected_version: NULL any (default), 0 no stream, -1 the stream exists, n exactly n.
-- A call that is sent again with the same ids returns the result of the first call.
-- Raises: WH001, WH002 (bad input), WH004, WH005, WH007 (version conflict). Locks, writes: see
-- append_batch.
CREATE OR REPLACE FUNCTION headwater.append(
    namespace text, stream_id text, events jsonb, expected_version bigint DEFAULT NULL,
    caller headwater.caller DEFAULT current_user
) RETURNS TABLE (event_id uuid, global_sequence bigint, stream_version bigint) LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.open_namespace(append.namespace, caller, 'producer');
    RETURN QUERY SELECT a.event_id, a.global_sequence, a.stream_version
      FROM headwater.append_writes(append.namespace, jsonb_build_array(jsonb_build_object(
               'stream_id', append.stream_id, 'expected_version', append.expected_version, 'events', append.events))) a;
END
$$;
