-- headwater_private.history()
-- What identifies the server's past, NULL while that is not known: on a standby, or before anybody has called headwater.begin_history. It is a token that
-- counts no more after whatever may take back sequences that were handed out:
--   it goes with recovery from a crash, and with the promotion of a standby: its table is UNLOGGED
--   the server was started again, perhaps with older files; a plain restart costs a look at the checkpoints, and nothing else
--   it is another database's: CREATE DATABASE ... TEMPLATE copies it, to another path
-- A session lives in one history: the server ends all of them before it recovers.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.history() RETURNS uuid
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- An UNLOGGED table cannot even be looked at there.
    IF pg_is_in_recovery() THEN
        RETURN NULL;
    END IF;
    RETURN (SELECT p.history FROM headwater_private.present_history p);
END
$$;
