-- headwater_private.history()
-- Returns what identifies the server's past; NULL while that is not known: on a standby, or before
-- the first call of headwater.begin_history. It is a token. It is void after everything that may
-- take back sequences that were handed out:
-- - after recovery from a crash, and after the promotion of a standby: its table is UNLOGGED, so
--   the token is gone
-- - after a start of the server, perhaps with older files; a plain restart costs one look at the
--   checkpoints and nothing else
-- - in another database: CREATE DATABASE ... TEMPLATE copies the token to another path
-- A session lives in one history: the server ends all sessions before it recovers.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.history() RETURNS uuid
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- A server in recovery refuses even to read an UNLOGGED table.
    IF pg_is_in_recovery() THEN
        RETURN NULL;
    END IF;
    RETURN (SELECT p.history FROM headwater_private.present_history p);
END
$$;
