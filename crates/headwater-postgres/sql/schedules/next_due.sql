-- headwater_private.next_due(queue_key, due_from)
-- Returns when the first retry of a queue at or after due_from is due. NULL: there is none.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.next_due(queue_key text, due_from timestamptz)
RETURNS timestamptz LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN least((SELECT r.due_at FROM headwater_private.retries r
                   WHERE r.subscriber_id || '/' || r.namespace_id::text = next_due.queue_key AND NOT r.suspect AND r.due_at >= next_due.due_from
                   ORDER BY r.due_at LIMIT 1),
                 (SELECT r.due_at FROM headwater_private.retries r
                   WHERE r.subscriber_id || '/' || r.namespace_id::text = next_due.queue_key AND r.suspect AND r.due_at >= next_due.due_from
                   ORDER BY r.due_at LIMIT 1));
END
$$;
