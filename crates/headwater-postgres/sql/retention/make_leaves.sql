-- headwater_private.make_leaves(parent, from_at, until_at)
-- Creates the months that a partitioned table of events lacks, from the month of from_at to the one
-- before until_at. Both times are ends of months.
-- Raises: nothing of its own. Locks, writes: see make_leaf.
CREATE OR REPLACE FUNCTION headwater_private.make_leaves(parent text, from_at timestamptz, until_at timestamptz)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    missing timestamptz;
BEGIN
    FOR missing IN SELECT m FROM generate_series(from_at, until_at - interval '1 microsecond', interval '1 month') m
                    WHERE NOT EXISTS (SELECT FROM headwater_private.leaves_of(parent) l WHERE l.starts_at <= m AND l.ends_at > m) LOOP
        PERFORM headwater_private.make_leaf(parent, missing, missing + interval '1 month');
    END LOOP;
END
$$;
