-- headwater.register_subscriber(namespace, subscriber_id, start_from, start_position, start_time)
-- Makes a subscriber, if it is not there; one that is there stays as it is, wherever it stands.
--   start_from   'beginning' (default), 'now': with what is stored from now on (events in flight included),
--                'after': start_position, 'time': with the first event recorded at or after start_time
-- What is not visible yet at or below a start_position above the horizon is in its ledger: it is delivered when it comes.
-- Answers whether it was made.
-- Raises: WH001, WH002, WH006. Locks: nothing. Writes: the subscriber.
CREATE OR REPLACE FUNCTION headwater.register_subscriber(
    namespace      text,
    subscriber_id  text,
    start_from     text DEFAULT 'beginning',
    start_position bigint DEFAULT NULL,
    start_time     timestamptz DEFAULT NULL
) RETURNS boolean LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    ns         headwater.namespaces := headwater.namespace_row(register_subscriber.namespace);
    start      bigint;
    ledger     bigint[] := '{}';
    first_term bigint;
BEGIN
    PERFORM headwater.check_name('subscriber_id', register_subscriber.subscriber_id, 255);
    IF EXISTS (SELECT FROM headwater.subscribers s
                WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = register_subscriber.subscriber_id) THEN
        RETURN false;
    END IF;
    start := CASE start_from WHEN 'beginning' THEN 0
                             WHEN 'now' THEN (SELECT h.horizon FROM headwater.horizon(register_subscriber.namespace) h)
                             WHEN 'after' THEN start_position
                             WHEN 'time' THEN headwater.position_at(register_subscriber.namespace, start_time) END;
    IF start IS NULL OR start < 0 OR (start_from = 'time' AND start_time IS NULL) THEN
        PERFORM headwater.fail('WH002', format('invalid start_from %L', left(start_from, 80)),
            jsonb_build_object('what', 'start_from', 'value', left(start_from, 80)),
            'start_from is beginning, now, after (with a start_position from 0) or time (with a start_time)');
    END IF;
    IF start_from = 'after' THEN
        ledger := headwater.ledger_at(register_subscriber.namespace, start);
    END IF;
    first_term := nextval('headwater.terms');
    INSERT INTO headwater.subscribers (namespace_id, subscriber_id, position, pending_gaps, term, began_in_term, audit_base, audit_ledger)
    VALUES (ns.namespace_id, register_subscriber.subscriber_id, start, ledger, first_term, first_term, start, ledger)
    ON CONFLICT DO NOTHING;
    RETURN FOUND;
END
$$;
