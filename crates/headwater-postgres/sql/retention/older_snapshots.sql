-- headwater_private.older_snapshots(bound)
-- Lists the other sessions of this database that use a snapshot whose xmin is below `bound`. A
-- session publishes the xmin of its oldest snapshot before it reads with it, and every role sees
-- it. Roles that may not see a session's details get none.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.older_snapshots(bound xid8)
RETURNS TABLE (pid int, application_name text, since timestamptz) LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    next constant bigint := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
BEGIN
    -- Sessions are read one by one. An exported snapshot may move from a session that was not read
    -- yet to one that was. So look twice.
    FOR look IN 1 .. 2 LOOP
        PERFORM pg_stat_clear_snapshot();
        RETURN QUERY
        SELECT a.pid, a.application_name, a.xact_start
          FROM pg_catalog.pg_stat_activity a
         WHERE a.datid = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = current_database()) AND a.pid <> pg_backend_pid()
           -- Extend the id to 64 bits: it is near the present one.
           AND next + ((a.backend_xmin::text::bigint - next + 2147483648) & 4294967295) - 2147483648 < bound::text::bigint
         ORDER BY 3, 1;
        EXIT WHEN FOUND;
    END LOOP;
END
$$;
