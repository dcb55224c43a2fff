-- headwater.reset_on_poison(namespace, sequences)
-- Call this after rows of the log turned out to be poison. It moves the active subscribers that are
-- past the first of them back to just before it, as headwater_private.reset_active describes. They
-- skip the poison and continue from there. Each poison row does this once, whoever calls and
-- however often.
-- Raises: WH001, WH002 (no list, or not poison), WH006, WH036. Locks: the poison's rows, against
-- trimming, the namespace's subscribers.
-- Writes: the poison's rows, subscribers, what was settled ahead.
CREATE OR REPLACE FUNCTION headwater.reset_on_poison(namespace text, sequences bigint[], caller headwater.caller DEFAULT current_user)
RETURNS TABLE (subscriber_id text, partition int, was_at bigint, stands_at bigint) LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns    headwater_private.namespaces := headwater_private.open_namespace(reset_on_poison.namespace, caller, 'consumer');
    other bigint;
    first bigint;
BEGIN
    IF coalesce(cardinality(sequences), 0) = 0 OR array_position(sequences, NULL) IS NOT NULL THEN
        PERFORM headwater_private.fail('WH002', 'sequences must be a list of events', jsonb_build_object('what', 'sequences', 'value', sequences),
            'give the global_sequence of each');
    END IF;
    SELECT q.sequence INTO other FROM unnest(sequences) AS q(sequence)
     WHERE NOT EXISTS (SELECT FROM headwater_private.poison_events p
                        WHERE p.namespace_id = ns.namespace_id AND p.global_sequence = q.sequence) LIMIT 1;
    IF FOUND THEN
        PERFORM headwater_private.fail('WH002', format('event %s is not poison', other),
            jsonb_build_object('what', 'sequences', 'value', other), 'see what is: SELECT * FROM headwater_private.poison_events');
    END IF;
    WITH new AS (
        UPDATE headwater_private.poison_events p SET notified = true
         WHERE p.namespace_id = ns.namespace_id AND p.global_sequence = ANY (reset_on_poison.sequences) AND NOT p.notified
        RETURNING p.global_sequence
    )
    SELECT min(n.global_sequence) INTO first FROM new n;
    IF first IS NOT NULL THEN
        RETURN QUERY SELECT r.* FROM headwater_private.reset_active(reset_on_poison.namespace, first) r;
    END IF;
END
$$;
