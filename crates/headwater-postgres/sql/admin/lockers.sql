-- headwater_private.lockers(row_xmax)
-- Lists the transactions that a row's xmax stands for: those that update the row or have locked it,
-- and are still open. xmax is a transaction, or a multixact of several (or of one that did so in a
-- subtransaction). The number does not tell which, so it is taken for both.
--   whole    whether it is the id by which others wait for it. Otherwise it is a subtransaction
--            that has ended, of a transaction that has not; these are listed only where no other is
--            known
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.lockers(row_xmax xid)
RETURNS TABLE (xid xid, whole boolean) LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    candidates xid[] := ARRAY[lockers.row_xmax];
    next       bigint := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
    one        xid;
    parts      xid[] := '{}';
    known      boolean := false;
BEGIN
    IF lockers.row_xmax IS NULL OR lockers.row_xmax = '0' THEN
        RETURN;
    END IF;
    BEGIN
        candidates := candidates || ARRAY(SELECT m.xid FROM pg_get_multixact_members(lockers.row_xmax) m);
    EXCEPTION WHEN OTHERS THEN
        -- There is no such multixact, or it no longer exists.
        NULL;
    END;
    FOREACH one IN ARRAY candidates LOOP
        IF EXISTS (SELECT FROM pg_catalog.pg_locks l
                    WHERE l.locktype = 'transactionid' AND l.transactionid = one AND l.mode = 'ExclusiveLock' AND l.granted) THEN
            known := true;
            RETURN QUERY SELECT one, true;
            CONTINUE;
        END IF;
        BEGIN
            -- Extend the id to 64 bits: it is near the present one.
            IF pg_xact_status((next + ((one::text::bigint - next + 2147483648) & 4294967295) - 2147483648)::text::xid8) = 'in progress' THEN
                parts := parts || one;
            END IF;
        EXCEPTION WHEN OTHERS THEN
            -- There was no such transaction.
            NULL;
        END;
    END LOOP;
    IF NOT known THEN
        RETURN QUERY SELECT p, false FROM unnest(parts) p;
    END IF;
END
$$;
