-- headwater_private.close_counter()
-- A trigger: at the end of a transaction that appended more than once, it writes the counter of a
-- gapless namespace, so that committed data is exact. A session can ask for it at once (SET
-- CONSTRAINTS). Then it runs after every append, which is slower and equally correct.
-- Raises: nothing. Locks, writes: the counter row, which the transaction holds already.
CREATE OR REPLACE FUNCTION headwater_private.close_counter()
RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE headwater_private.counters c
       SET last_sequence = greatest(c.last_sequence, headwater_private.highest_event(c.namespace_id)), is_open = false
     WHERE c.namespace_id = NEW.namespace_id AND c.is_open;
    RETURN NULL;
END
$$;
