-- headwater.discard(namespace, reason, subscriber_id, states, global_sequence, event_type,
-- order_key, error_contains, after_sequence)
-- Public: in docs/sql.md.
-- Discards dead letters for good: the open letters that match (NULL: any). Letters that are parked
-- behind them, and are not discarded themselves, are delivered. Returns how many were discarded.
-- Raises: WH001, WH012. Locks: the subscriber's row, or all of the namespace. Writes: dead letters,
-- subscribers.
CREATE OR REPLACE FUNCTION headwater.discard(
    namespace       text,
    reason          text,
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
    ns      headwater_private.namespaces := headwater_private.open_namespace(discard.namespace, caller, 'consumer');
    letters bigint;
BEGIN
    PERFORM headwater_private.lock_subscribers(ns.namespace_id, discard.subscriber_id);
    WITH marked AS (
        UPDATE headwater_private.dead_letters d
           SET state = 'discarded', reason = discard.reason, updated_at = clock_timestamp()
          FROM headwater_private.matching_letters(ns.namespace_id, discard.subscriber_id, discard.states, discard.global_sequence,
                   discard.event_type, discard.order_key, discard.error_contains, discard.after_sequence) m
         WHERE d.namespace_id = ns.namespace_id AND d.subscriber_id = m.subscriber_id AND d.global_sequence = m.global_sequence
           AND d.state IN ('dead', 'parked', 'redriving')
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
