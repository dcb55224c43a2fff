-- headwater.put_state(namespace_id, owner, state_id, state, expected, partition, term,
-- global_sequence)
-- Stores the state of an id; NULL deletes it. Each condition that is not NULL must hold, or nothing
-- is written:
--   expected         The version that the state was read with; 0: there was no state.
--   partition        The subscriber has this partition (in this term, if one is given): an owner
--                    that was replaced or removed writes no state.
--   global_sequence  The event has not changed this state before. This call records that it has
--                    now.
-- Returns 'stored', 'stale' (it has changed since it was read), 'applied' (the event has changed it
-- before) or 'fenced'.
-- Raises: WH001, WH002, WH015, WH016. Locks: the state's row; the subscriber's row against removal.
-- Writes: states, applied_events.
CREATE OR REPLACE FUNCTION headwater.put_state(
    namespace_id    int,
    owner           text,
    state_id        text,
    state           jsonb,
    expected        bigint DEFAULT NULL,
    partition       int DEFAULT NULL,
    term            bigint DEFAULT NULL,
    global_sequence bigint DEFAULT NULL,
    caller          headwater.caller DEFAULT current_user
) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'consumer');
    IF put_state.partition IS NOT NULL THEN
        PERFORM FROM headwater_private.subscribers s
          WHERE s.namespace_id = put_state.namespace_id AND s.subscriber_id = put_state.owner AND s.partition = put_state.partition
            AND (put_state.term IS NULL OR s.term = put_state.term)
            FOR KEY SHARE;
        IF NOT FOUND THEN
            RETURN 'fenced';
        END IF;
    END IF;
    IF put_state.global_sequence IS NOT NULL THEN
        PERFORM headwater_private.check_sequences(put_state.namespace_id, ARRAY[put_state.global_sequence], false);
        INSERT INTO headwater_private.applied_events (namespace_id, owner, global_sequence, state_id)
        VALUES (put_state.namespace_id, put_state.owner, put_state.global_sequence, put_state.state_id)
            ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            RETURN 'applied';
        END IF;
    END IF;
    IF put_state.state IS NULL THEN
        DELETE FROM headwater_private.states t
         WHERE t.namespace_id = put_state.namespace_id AND t.owner = put_state.owner AND t.state_id = put_state.state_id
           AND (put_state.expected IS NULL OR t.version = put_state.expected);
        -- A state that does not exist need not be deleted, if the caller read that it did not
        -- exist.
        IF FOUND OR put_state.expected IS NULL OR put_state.expected = 0 AND NOT EXISTS (
            SELECT FROM headwater_private.states t
             WHERE t.namespace_id = put_state.namespace_id AND t.owner = put_state.owner AND t.state_id = put_state.state_id)
        THEN
            RETURN 'stored';
        END IF;
    ELSIF put_state.expected > 0 THEN
        UPDATE headwater_private.states t
           SET state = put_state.state, version = pg_current_xact_id()::text::bigint, updated_at = now(),
               global_sequence = put_state.global_sequence
         WHERE t.namespace_id = put_state.namespace_id AND t.owner = put_state.owner AND t.state_id = put_state.state_id
           AND t.version = put_state.expected;
        IF FOUND THEN
            RETURN 'stored';
        END IF;
    ELSE
        INSERT INTO headwater_private.states AS t (namespace_id, owner, state_id, state, version, global_sequence)
        VALUES (put_state.namespace_id, put_state.owner, put_state.state_id, put_state.state, pg_current_xact_id()::text::bigint,
                put_state.global_sequence)
            ON CONFLICT (namespace_id, owner, state_id) DO UPDATE
               SET state = excluded.state, version = excluded.version, updated_at = now(), global_sequence = excluded.global_sequence
             WHERE put_state.expected IS NULL OR t.version = put_state.expected;
        IF FOUND THEN
            RETURN 'stored';
        END IF;
    END IF;
    DELETE FROM headwater_private.applied_events a
     WHERE a.namespace_id = put_state.namespace_id AND a.owner = put_state.owner
       AND a.global_sequence = put_state.global_sequence AND a.state_id = put_state.state_id;
    RETURN 'stale';
END
$$;
