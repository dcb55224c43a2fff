-- headwater.cancel_due(namespace, event_id)
-- Public: in docs/sql.md.
-- Cancels an event that is not due yet. Returns whether it did: then the event is never delivered,
-- if this transaction commits. If it returns false, the event was appended already, or there is no
-- event with this id.
-- Raises: WH001, WH002 (no id). Locks: the event's row; it waits for a session that fires it.
-- Writes: due_events.
CREATE OR REPLACE FUNCTION headwater.cancel_due(namespace text, event_id uuid, caller headwater.caller DEFAULT current_user)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns headwater_private.namespaces := headwater_private.open_namespace(cancel_due.namespace, caller, 'producer');
BEGIN
    IF cancel_due.event_id IS NULL THEN
        PERFORM headwater_private.fail('WH002', 'invalid event_id NULL', '{"what": "event_id"}', 'give the id that headwater.emit_at answered');
    END IF;
    DELETE FROM headwater_private.due_events d WHERE d.namespace_id = ns.namespace_id AND d.event_id = cancel_due.event_id;
    RETURN FOUND;
END
$$;
