-- headwater_private.is_retired(leaf)
-- Whether a month may leave the partitioned table that it is part of: it was noted by headwater_private.retire_month, and no snapshot of
-- before that is in use. Once true, it stays true.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.is_retired(leaf text)
RETURNS boolean LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bound xid8;
BEGIN
    SELECT v.sealed_below INTO bound FROM headwater_private.leaving_months v
     -- A note from the future is another server's: the database was restored from a dump.
     WHERE v.leaf = is_retired.leaf AND v.sealed_below <= pg_snapshot_xmax(pg_current_snapshot());
    RETURN bound IS NOT NULL AND NOT EXISTS (SELECT FROM headwater_private.older_snapshots(bound));
END
$$;
