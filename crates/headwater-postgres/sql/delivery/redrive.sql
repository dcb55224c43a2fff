-- headwater.redrive(namespace, subscriber_id, states, global_sequence, event_type, order_key,
-- error_contains, after_sequence)
-- Public: in docs/sql.md.
-- Asks to deliver dead letters again: the letters that are dead or parked and match (NULL: any). If
-- a letter parks its key, or is parked, all letters of that key are included, so that they stay in
-- order. Returns how many were marked.
-- Raises: WH001, WH012, WH033 (a queue's event is trimmed). Locks: against trimming; the
-- subscriber's row, or all of the namespace. Writes: dead letters, subscribers.
CREATE OR REPLACE FUNCTION headwater.redrive(
    namespace       text,
    subscriber_id   text DEFAULT NULL,
    states          text[] DEFAULT NULL,
    global_sequence bigint DEFAULT NULL,
    event_type      text DEFAULT NULL,
    order_key       text DEFAULT NULL,
    error_contains  text DEFAULT NULL,
    after_sequence  bigint DEFAULT NULL,
    caller headwater.caller DEFAULT current_user
) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns      headwater_private.namespaces := headwater_private.open_namespace(redrive.namespace, caller, 'consumer');
    letters bigint;
    gone    bigint;
BEGIN
    -- As in kept_position: what is kept now stays kept until it is marked.
    PERFORM headwater_private.latch(ns.namespace_id, 'kept', shared => true);
    SELECT m.global_sequence INTO gone
      FROM headwater_private.matching_letters(ns.namespace_id, redrive.subscriber_id, redrive.states, redrive.global_sequence,
               redrive.event_type, redrive.order_key, redrive.error_contains, redrive.after_sequence) m
      JOIN headwater_private.subscribers s ON s.namespace_id = ns.namespace_id AND s.subscriber_id = m.subscriber_id AND s.partition = 0
       AND s.mode = 'shared'
     WHERE m.state IN ('dead', 'parked') AND ns.kept_from > '-infinity'
       AND NOT EXISTS (SELECT FROM headwater_private.events_at(ns.namespace_id, ARRAY[m.global_sequence]))
     LIMIT 1;
    IF FOUND THEN
        PERFORM headwater_private.fail('WH033', format('event %s is trimmed: a queue cannot deliver it again', gone),
            jsonb_build_object('global_sequence', gone),
            'its letter has the whole event: append it anew if it is still wanted, then discard the letter');
    END IF;
    PERFORM headwater_private.lock_subscribers(ns.namespace_id, redrive.subscriber_id);
    WITH chosen AS MATERIALIZED (
        SELECT m.subscriber_id, m.global_sequence, m.order_key, m.parks_key OR m.state = 'parked' AS parks
          FROM headwater_private.matching_letters(ns.namespace_id, redrive.subscriber_id, redrive.states, redrive.global_sequence,
                   redrive.event_type, redrive.order_key, redrive.error_contains, redrive.after_sequence) m
         WHERE m.state IN ('dead', 'parked')
    ), wanted AS MATERIALIZED (
        SELECT c.subscriber_id, c.global_sequence FROM chosen c
        UNION
        SELECT d.subscriber_id, d.global_sequence
          FROM (SELECT DISTINCT c.subscriber_id, c.order_key FROM chosen c WHERE c.parks) k
          JOIN headwater_private.dead_letters d
            ON d.namespace_id = ns.namespace_id AND d.subscriber_id = k.subscriber_id AND d.order_key = k.order_key
         WHERE d.state IN ('dead', 'parked')
    ), marked AS (
        -- A letter that was parked once belongs to a parked key, even if it later fails by itself.
        UPDATE headwater_private.dead_letters d
           SET state = 'redriving', parks_key = d.parks_key OR d.state = 'parked', updated_at = clock_timestamp()
          FROM wanted w
         WHERE d.namespace_id = ns.namespace_id AND d.subscriber_id = w.subscriber_id AND d.global_sequence = w.global_sequence
        RETURNING d.subscriber_id
    ), told AS (
        UPDATE headwater_private.subscribers s SET letters_epoch = s.letters_epoch + 1
          FROM (SELECT DISTINCT m.subscriber_id FROM marked m) m
         WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = m.subscriber_id
    )
    SELECT count(*) INTO letters FROM marked;
    RETURN letters;
END
$$;
