-- headwater.enter_log(namespace_id, sequence)
-- The writer's half of the horizon: announces, before the first nextval of this transaction, that it may commit
-- events above the sequence's present value. Once per transaction is enough, since later values are higher; a
-- transaction of many appends would otherwise fill the lock table.
--
-- The lock: advisory, shared, held until the transaction ends; 64 bits: 0x4857 'HW' (16), namespace_id (16), the low half of
-- last_value (32). What is in flight lies close to the tail, so readers can rebuild the whole (functions/writers.sql).
-- The note that it is held is a setting of the transaction: a rollback to a savepoint takes back both lock and note.
-- Raises: nothing. Locks: the advisory lock. Writes: nothing.
CREATE OR REPLACE FUNCTION headwater.enter_log(namespace_id int, sequence regclass)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    done text;
    note text := 'headwater.entered_n' || namespace_id;
    xid  text := pg_current_xact_id()::text;
BEGIN
    IF current_setting(note, true) IS NOT DISTINCT FROM xid THEN
        RETURN;
    END IF;
    done := pg_advisory_xact_lock_shared(
        (18519::bigint << 48) | (namespace_id::bigint << 32) | (pg_sequence_last_value(sequence) & 4294967295));
    done := set_config(note, xid, true);
END
$$;
