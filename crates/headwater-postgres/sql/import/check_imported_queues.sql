-- headwater_private.check_imported_queues(namespace_id)
-- Checks that the queues and retries of an import belong to shared subscribers. It takes the types
-- of a retry from its events, and leaves out what the log no longer has.
-- Raises: WH002, WH016. Locks: as require_in_log. Writes: retries.
CREATE OR REPLACE FUNCTION headwater_private.check_imported_queues(namespace_id int)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    wrong text;
BEGIN
    SELECT q.subscriber_id INTO wrong
      FROM (SELECT r.subscriber_id, r.sequences <> '{}' AND NOT r.of_letter AND r.attempts BETWEEN 0 AND 1000000 AND r.uncounted BETWEEN 0 AND 1000000
                   AND r.due_at BETWEEN '0001-01-01 00:00:00+00' AND clock_timestamp() + interval '1001 years'
                   AND headwater_private.are_attempts(r.failures) AS fits
              FROM headwater_private.retries r WHERE r.namespace_id = check_imported_queues.namespace_id
             UNION ALL
            SELECT c.subscriber_id, true FROM headwater_private.claims c WHERE c.namespace_id = check_imported_queues.namespace_id) q
      LEFT JOIN headwater_private.subscribers s
             ON s.namespace_id = check_imported_queues.namespace_id AND s.subscriber_id = q.subscriber_id AND s.partition = 0 AND s.mode = 'shared'
     WHERE (q.fits AND s.subscriber_id IS NOT NULL) IS NOT TRUE
     LIMIT 1;
    IF wrong IS NOT NULL THEN
        PERFORM headwater_private.fail('WH002', format('the export contradicts itself: the queue of subscriber %L', left(wrong, 80)),
            jsonb_build_object('what', 'queue_states', 'value', left(wrong, 255)), 'the file is damaged: export it again');
    END IF;
    PERFORM headwater_private.check_sequences(r.namespace_id, r.sequences, false) FROM headwater_private.retries r
      WHERE r.namespace_id = check_imported_queues.namespace_id;
    DELETE FROM headwater_private.retries r
     WHERE r.namespace_id = check_imported_queues.namespace_id
       AND NOT EXISTS (SELECT FROM headwater_private.events_at(r.namespace_id, r.sequences));
    UPDATE headwater_private.retries r
       SET event_types = ARRAY(SELECT DISTINCT e.event_type FROM headwater_private.events_at(r.namespace_id, r.sequences) e)
     WHERE r.namespace_id = check_imported_queues.namespace_id;
END
$$;
