-- headwater_private.enter_log(namespace_id, sequence)
-- The writer's half of the horizon. Before the first nextval of this transaction, it announces that
-- the transaction may commit events above a value of the sequence. The announcement is an advisory
-- lock: shared, held until the transaction ends, with the low half of that value in its key
-- (writer_key). What is in flight lies close to the tail, so readers can rebuild the whole value
-- (writers).
--
-- It waits for nobody. Any session can hold that key against it. If one does, it takes a key that
-- nobody can foresee. Such a key says only that a writer exists, so readers prove nothing while it
-- is held.
--
-- One lock serves the whole transaction, because later values are higher; another lock for each
-- append would fill the lock table. So the key is noted in a setting of the transaction, and the
-- same lock is taken again, which costs nothing. The lock is always taken: the note only says
-- which. Whatever a session writes into the setting, the value lies at or below the value of the
-- sequence. So a forged note can hold the horizon back, but never lets it pass an event. A rollback
-- to a savepoint takes back both lock and note.
-- Raises: nothing. Locks: the advisory lock. Writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.enter_log(namespace_id int, sequence regclass)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    note  text := 'headwater.entered_n' || namespace_id;
    noted text := current_setting(note, true);
    value bigint := pg_sequence_last_value(sequence);
    done  text;
BEGIN
    IF noted ~ '^[0-9]{1,18}$' AND noted::bigint <= value AND value - noted::bigint < 2147483648 THEN
        value := noted::bigint;
    ELSIF noted ~ '^any [0-9]{1,9}$'
          AND pg_try_advisory_xact_lock_shared(headwater_private.writer_key(namespace_id, substr(noted, 5)::bigint, false)) THEN
        RETURN;
    ELSE
        done := set_config(note, value::text, true);
    END IF;
    IF pg_try_advisory_xact_lock_shared(headwater_private.writer_key(namespace_id, value)) THEN
        RETURN;
    END IF;
    LOOP
        value := trunc(random() * 1000000000)::bigint;
        EXIT WHEN pg_try_advisory_xact_lock_shared(headwater_private.writer_key(namespace_id, value, false));
    END LOOP;
    done := set_config(note, 'any ' || value, true);
END
$$;
