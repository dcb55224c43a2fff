-- headwater.note_poison(namespace, sequences, errors)
-- Records rows of the log that a reader could not turn into events, and why. From now on they are
-- permanent gaps, which hold nobody up. What is recorded already stays unchanged. Returns how many
-- are new.
-- Raises: WH001, WH002 (lists that are NULL or differ in length), WH016. Locks: nothing. Writes:
-- poison, permanent gaps, and what notifiers have to report.
CREATE OR REPLACE FUNCTION headwater.note_poison(namespace text, sequences bigint[], errors text[], caller headwater.caller DEFAULT current_user)
RETURNS int LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns    headwater_private.namespaces := headwater_private.open_namespace(note_poison.namespace, caller, 'consumer');
    noted int;
BEGIN
    IF sequences IS NULL OR errors IS NULL OR cardinality(sequences) <> cardinality(errors) THEN
        PERFORM headwater_private.fail('WH002', 'sequences and errors must be lists of the same length',
            jsonb_build_object('what', 'sequences', 'value', cardinality(sequences)), 'give one error for each sequence');
    END IF;
    IF EXISTS (SELECT FROM unnest(sequences) AS s(sequence) WHERE (s.sequence > 0) IS NOT TRUE) THEN
        PERFORM headwater_private.fail('WH002', 'invalid sequences', jsonb_build_object('what', 'sequences'), 'a sequence is 1 or more');
    END IF;
    PERFORM headwater_private.require_in_log(ns.namespace_id, (SELECT max(s) FROM unnest(sequences) s));
    WITH new AS (
        INSERT INTO headwater_private.poison_events (namespace_id, global_sequence, error)
        SELECT ns.namespace_id, p.global_sequence, left(p.error, 2000)
          FROM unnest(note_poison.sequences, note_poison.errors) AS p(global_sequence, error)
            ON CONFLICT DO NOTHING
        RETURNING global_sequence
    ), gaps AS (
        INSERT INTO headwater_private.permanent_gaps (namespace_id, first_sequence, last_sequence, proof)
        SELECT ns.namespace_id, new.global_sequence, new.global_sequence, 'poison' FROM new
            ON CONFLICT DO NOTHING
    ), untold AS (
        INSERT INTO headwater_private.untold_poison (namespace_id, notifier, global_sequence)
        SELECT ns.namespace_id, n.notifier, new.global_sequence
          FROM new JOIN headwater_private.poison_notifiers n ON n.namespace_id = ns.namespace_id
            ON CONFLICT DO NOTHING
    )
    SELECT count(*) INTO noted FROM new;
    RETURN noted;
END
$$;
