-- headwater_private.set_index(ns, index)
-- Switches the type index of a namespace on or off. Appends that begin after this write the index
-- if it is on. maintain_index does the rest.
--
-- Why no event is left out. The start value of the namespace's sequence tells whether an append
-- writes the index, and means nothing else: 1 if it does. An append reads the value after it has
-- locked the sequence. (pg_sequence_last_value takes that lock and keeps it until the transaction
-- ends, whatever happens to savepoints; a prepared transaction keeps it too.) ALTER SEQUENCE
-- conflicts with that lock. So:
--   1. A transaction that appended before the switch has ended when ALTER SEQUENCE gets its lock.
--      Its events lie at or below `fill_to`, which is read under that lock, and everybody who sees
--      the switch sees them. maintain_index adds them.
--   2. A transaction that appends after the switch locks the sequence after the switch has
--      committed, and then reads the new value: the parameters of a sequence are read from the
--      catalog as it is, not from the transaction's snapshot. So a REPEATABLE READ transaction, and
--      a statement that began before the switch and waited for the lock, write the index too.
--   3. If the switch is rolled back, so is the value.
-- A gapless namespace uses its counter row instead of the sequence. Each append locks that row and
-- reads has_index from the locked row; under REPEATABLE READ it fails (40001) if the row has
-- changed since its snapshot.
-- Raises: WH038 if transactions that hold the sequence stay open for more than 5 seconds: try
-- again. Locks: the sequence or the counter row, for which it waits, with appends waiting behind
-- it; the namespace's row. Writes: the sequence's start value or the counter row, the namespace,
-- index_states.
CREATE OR REPLACE FUNCTION headwater_private.set_index(ns headwater_private.namespaces, index text)
RETURNS void LANGUAGE plpgsql SET lock_timeout = '5s' SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    last bigint;
BEGIN
    BEGIN
        IF ns.sequence IS NULL THEN
            UPDATE headwater_private.counters c SET has_index = index = 'types' WHERE c.namespace_id = ns.namespace_id;
            last := headwater_private.counted(ns.namespace_id);
        ELSE
            EXECUTE format('ALTER SEQUENCE %s START %s', ns.sequence, CASE index WHEN 'types' THEN 1 ELSE 0 END);
            last := pg_sequence_last_value(ns.sequence);
        END IF;
        UPDATE headwater_private.namespaces n SET index = set_index.index WHERE n.namespace_id = ns.namespace_id;
        IF index = 'types' THEN
            INSERT INTO headwater_private.index_states AS i (namespace_id, state, fill_to)
            VALUES (ns.namespace_id, CASE WHEN last > 0 THEN 'building' ELSE 'ready' END, last)
            ON CONFLICT (namespace_id) DO UPDATE SET state = excluded.state, filled_to = 0, fill_to = excluded.fill_to, swept_to = 0;
        ELSE
            UPDATE headwater_private.index_states i SET state = 'removing' WHERE i.namespace_id = ns.namespace_id;
        END IF;
    EXCEPTION WHEN lock_not_available THEN
        PERFORM headwater_private.refuse_held(ns, CASE index WHEN 'types' THEN 'indexed' ELSE 'changed' END,
            'transactions that use it are open');
    END;
END
$$;
