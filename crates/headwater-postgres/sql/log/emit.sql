-- headwater.emit(namespace, event_type, data, …)
-- Public: in docs/sql.md.
-- Appends one event without a stream, in the caller's transaction, and returns its global_sequence.
-- A call that is sent again with the same event_id returns the result of the first call.
-- Raises: WH001, WH002 (bad input), WH004, WH005. Locks, writes: see append_batch.
CREATE OR REPLACE FUNCTION headwater.emit(
    namespace      text,
    event_type     text,
    data           jsonb DEFAULT 'null',
    event_id       uuid DEFAULT NULL,
    key            text DEFAULT NULL,
    headers        jsonb DEFAULT NULL,
    actor_id       text DEFAULT NULL,
    correlation_id uuid DEFAULT NULL,
    causation_id   uuid DEFAULT NULL,
    schema_version int DEFAULT NULL,
    created_at     timestamptz DEFAULT NULL,
    caller headwater.caller DEFAULT current_user
) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM headwater_private.open_namespace(emit.namespace, caller, 'producer');
    PERFORM headwater_private.check_event(emit.event_type, emit.key, emit.actor_id, emit.headers, emit.schema_version);
    RETURN (SELECT b.sequences[1] FROM headwater.append_batch(
        emit.namespace, NULL, ARRAY[coalesce(emit.event_id, headwater.uuid_v7())], ARRAY[emit.event_type],
        ARRAY[coalesce(emit.data, 'null')::text], NULL, NULL, NULL, ARRAY[emit.schema_version], ARRAY[emit.key], ARRAY[emit.actor_id],
        ARRAY[emit.correlation_id], ARRAY[emit.causation_id], ARRAY[nullif(emit.headers, 'null')::text], ARRAY[emit.created_at],
        NULL, NULL, NULL, NULL, true, NULL) b);
END
$$;
