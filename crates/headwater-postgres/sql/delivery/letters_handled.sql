-- headwater_private.letters_handled(namespace_id, subscriber_id, sequences)
-- Records that redriven letters of a shared subscriber were handled. A letter that was discarded,
-- or that failed in another claim, in the meantime stays so.
-- Raises: nothing. Locks, writes: the dead letters.
CREATE OR REPLACE FUNCTION headwater_private.letters_handled(namespace_id int, subscriber_id text, sequences bigint[])
RETURNS void LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    UPDATE headwater_private.dead_letters d
       SET queued = false, state = CASE d.state WHEN 'redriving' THEN 'redriven' ELSE d.state END,
           updated_at = CASE d.state WHEN 'redriving' THEN clock_timestamp() ELSE d.updated_at END
     WHERE d.namespace_id = letters_handled.namespace_id AND d.subscriber_id = letters_handled.subscriber_id
       AND d.global_sequence = ANY (letters_handled.sequences) AND (d.state = 'redriving' OR d.queued)
$$;
