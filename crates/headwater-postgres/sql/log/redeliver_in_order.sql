-- headwater.redeliver_in_order(namespace, sequences)
-- Call this after poison was repaired. It moves active subscribers that are past the first of these
-- sequences back to just before it, as headwater_private.reset_active describes, so that they get
-- these events and everything that follows again, in order. All other subscribers that are past a
-- sequence get its event late, as with headwater.redeliver_poison. Returns how many partitions were
-- moved, and how many will get an event late.
-- Raises: WH001, WH002 (no list; or a sequence is not poison or was redelivered: then nothing is
-- done), WH006, WH036. Locks: against trimming, the namespace's subscribers. Writes: the poison's
-- rows, subscribers, what was settled ahead.
CREATE OR REPLACE FUNCTION headwater.redeliver_in_order(namespace text, sequences bigint[], OUT moved int, OUT late int, caller headwater.caller DEFAULT current_user)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    one bigint;
BEGIN
    PERFORM headwater_private.open_namespace(redeliver_in_order.namespace, caller, 'consumer');
    IF coalesce(cardinality(sequences), 0) = 0 OR array_position(sequences, NULL) IS NOT NULL THEN
        PERFORM headwater_private.fail('WH002', 'sequences must be a list of events', jsonb_build_object('what', 'sequences', 'value', sequences),
            'give the global_sequence of each');
    END IF;
    SELECT count(*) INTO moved
      FROM headwater_private.reset_active(redeliver_in_order.namespace, (SELECT min(q.sequence) FROM unnest(sequences) AS q(sequence)));
    late := 0;
    FOR one IN SELECT DISTINCT q.sequence FROM unnest(sequences) AS q(sequence) ORDER BY 1 LOOP
        late := greatest(late, headwater.redeliver_poison(redeliver_in_order.namespace, one));
    END LOOP;
END
$$;
