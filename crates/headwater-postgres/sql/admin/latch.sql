-- headwater_private.latch(namespace_id, what, shared)
-- Lets one transaction at a time do `what` in a namespace (0: in all namespaces), or several that
-- share it. It is a row lock, because everybody who can connect can take advisory locks.
-- Raises: nothing. Locks: the row, until the transaction ends. Writes: the row, the first time.
CREATE OR REPLACE FUNCTION headwater_private.latch(namespace_id int, what text, shared boolean DEFAULT false)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    LOOP
        IF shared THEN
            PERFORM FROM headwater_private.latches l WHERE l.namespace_id = latch.namespace_id AND l.what = latch.what FOR SHARE;
        ELSE
            PERFORM FROM headwater_private.latches l WHERE l.namespace_id = latch.namespace_id AND l.what = latch.what FOR UPDATE;
        END IF;
        EXIT WHEN FOUND;
        INSERT INTO headwater_private.latches (namespace_id, what) VALUES (latch.namespace_id, latch.what) ON CONFLICT DO NOTHING;
    END LOOP;
END
$$;
