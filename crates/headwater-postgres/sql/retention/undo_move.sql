-- headwater_private.undo_move(ns)
-- Takes back a move that was begun and has not switched yet (headwater.set_storage). What was
-- copied to months that namespaces share is in left_behind already.
-- Raises: nothing of its own. Locks: the new table of the move, which nobody reads. Writes: that
-- table, storage_moves.
CREATE OR REPLACE FUNCTION headwater_private.undo_move(ns headwater_private.namespaces)
RETURNS void LANGUAGE plpgsql SET client_min_messages = 'warning' SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF ns.storage = 'shared' THEN
        EXECUTE format('DROP TABLE IF EXISTS headwater_private.%I', headwater_private.move_target(ns, 'own'));
    END IF;
    DELETE FROM headwater_private.storage_moves m WHERE m.namespace_id = ns.namespace_id;
END
$$;
