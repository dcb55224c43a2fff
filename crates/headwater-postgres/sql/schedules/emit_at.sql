-- headwater.emit_at(namespace, event_type, due_at, data, …)
-- Public: in docs/sql.md.
-- Stores an event now, in the caller's transaction, to be appended and delivered no earlier than
-- due_at by the server's clock. An event that is due already is appended at once, unless events of
-- its stream that were due before still wait. Returns the event's id, with which
-- headwater.cancel_due cancels it; headwater.emit returns a sequence instead, but this event has no
-- place in the log yet. A call that is sent again with the same event_id returns the result of the
-- first call. The event's header due_at says when it was due. With a stream_id the event goes to
-- that stream, whatever its version is then.
-- Raises: WH001, WH002 (bad input), WH004, WH005. Locks, writes: see store_due.
CREATE OR REPLACE FUNCTION headwater.emit_at(
    namespace      text,
    event_type     text,
    due_at         timestamptz,
    data           jsonb DEFAULT 'null',
    event_id       uuid DEFAULT NULL,
    stream_id      text DEFAULT NULL,
    key            text DEFAULT NULL,
    headers        jsonb DEFAULT NULL,
    actor_id       text DEFAULT NULL,
    correlation_id uuid DEFAULT NULL,
    causation_id   uuid DEFAULT NULL,
    schema_version int DEFAULT NULL,
    created_at     timestamptz DEFAULT NULL,
    caller headwater.caller DEFAULT current_user
) RETURNS uuid LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    id uuid := coalesce(emit_at.event_id, headwater.uuid_v7());
BEGIN
    PERFORM headwater_private.open_namespace(emit_at.namespace, caller, 'producer');
    PERFORM headwater.store_due(emit_at.namespace, id, emit_at.event_type, emit_at.due_at, emit_at.data, emit_at.stream_id, emit_at.key,
        emit_at.headers, emit_at.actor_id, emit_at.correlation_id, emit_at.causation_id, emit_at.schema_version, emit_at.created_at, true);
    RETURN id;
END
$$;
