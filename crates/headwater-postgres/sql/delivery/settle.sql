-- headwater.settle(namespace, subscriber_id, partition, term, cursor)
-- Public: in docs/sql.md.
-- Settles the events of a bundle, in the caller's transaction, with its effects: both are
-- committed, or neither. It does so only in the owner's term and history, and only once. A caller
-- that is no longer the owner, or that settled these events before, or left out the bundle before,
-- gets an error, and must roll back. An owner that settles is alive: its lease is renewed.
-- Raises: WH001, WH002, WH011 if another worker owns the partition or it stands elsewhere, WH012,
-- WH013, WH015, WH016, WH050 if the server has another history. Locks: the partition's row.
-- Writes: the subscriber, dead letters, what was settled ahead.
CREATE OR REPLACE FUNCTION headwater.settle(
    namespace text, subscriber_id text, partition int, term bigint, cursor text, caller headwater.caller DEFAULT current_user
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns    headwater_private.namespaces := headwater_private.open_namespace(settle.namespace, caller, 'consumer');
    move  headwater_private.settlement := headwater_private.read_cursor(settle.cursor);
    done  record;
    moved boolean;
BEGIN
    IF settle.term IS NULL OR settle.partition IS NULL THEN
        PERFORM headwater_private.owned_partition(ns.namespace_id, settle.subscriber_id, settle.partition, settle.term);
    END IF;
    IF move.letter IS NOT NULL THEN
        PERFORM headwater.require_history(move.history);
        SELECT r.fenced, r.tried INTO done
          FROM headwater.redriven(ns.namespace_id, settle.subscriber_id, settle.term, move.letter, NULL, NULL, NULL, settle.partition) r;
        IF done.fenced = 0 OR done.tried = 0 THEN
            PERFORM headwater_private.owned_partition(ns.namespace_id, settle.subscriber_id, settle.partition, settle.term);
            PERFORM headwater_private.partition_lost(settle.subscriber_id, settle.partition, settle.term,
                format('the dead letter of event %s was settled before', move.letter));
        END IF;
        RETURN;
    END IF;
    moved := headwater.advance_in(ns.namespace_id, settle.subscriber_id, settle.term, move.to_position, move.last_event_id, move.ledger,
        move.events, move.event_sum::text, move.late, move.late_sum::text, move.from_position, move.from_ledger, settle.partition, move.history);
    IF moved AND move.follows IS NOT NULL THEN
        moved := EXISTS (SELECT FROM headwater_private.settled_ahead a
                          WHERE a.namespace_id = ns.namespace_id AND a.subscriber_id = settle.subscriber_id AND a.partition = settle.partition
                            AND a.first_sequence = move.follows);
    END IF;
    IF moved AND move.ahead <> '{}' THEN
        PERFORM headwater_private.check_sequences(ns.namespace_id, move.ahead, false);
        INSERT INTO headwater_private.settled_ahead (namespace_id, subscriber_id, partition, first_sequence, sequences)
        VALUES (ns.namespace_id, settle.subscriber_id, settle.partition, move.ahead[1], move.ahead)
            ON CONFLICT DO NOTHING;
        moved := FOUND;
    END IF;
    IF NOT moved THEN
        PERFORM headwater_private.owned_partition(ns.namespace_id, settle.subscriber_id, settle.partition, settle.term);
        PERFORM headwater_private.partition_lost(settle.subscriber_id, settle.partition, settle.term,
            'it does not stand where the cursor begins: the events were settled before, or a bundle before them was not');
    END IF;
    IF move.passes <> '{}' THEN
        DELETE FROM headwater_private.settled_ahead a
         WHERE a.namespace_id = ns.namespace_id AND a.subscriber_id = settle.subscriber_id AND a.partition = settle.partition
           AND a.first_sequence = ANY (move.passes) AND a.sequences[cardinality(a.sequences)] <= move.to_position;
    END IF;
    IF move.parks <> '{}' THEN
        PERFORM headwater_private.check_sequences(ns.namespace_id, move.parks, false);
        PERFORM headwater_private.bury_events(ns.namespace_id, settle.subscriber_id, settle.partition, settle.term, move.parks, 'parked', false, '[]');
    END IF;
    IF move.tidy THEN
        PERFORM headwater.forget_ahead(ns.namespace_id, settle.subscriber_id, settle.partition);
    END IF;
    DELETE FROM headwater_private.failing_events f
     WHERE f.namespace_id = ns.namespace_id AND f.subscriber_id = settle.subscriber_id AND f.partition = settle.partition
       AND (f.sequences[1] = ANY (move.ahead)
            OR f.sequences[1] <= move.to_position
               AND NOT headwater_private.ledger_holds(move.ledger, ARRAY[f.sequences[1], f.sequences[1]]));
END
$$;
