-- headwater_private.make_leaf(parent, starts_at, ends_at)
-- Creates the table of a month, or of a part of one, and attaches it to a partitioned table of
-- events. A table that has the leaf's name but was detached is attached again. Bounds are written
-- as text, so this pins its form.
-- Raises: nothing of its own. Locks: SHARE UPDATE EXCLUSIVE on the parent (readers and writers go
-- on). Writes: the leaf and its indexes.
CREATE OR REPLACE FUNCTION headwater_private.make_leaf(parent text, starts_at timestamptz, ends_at timestamptz)
RETURNS void LANGUAGE plpgsql SET default_tablespace = '' SET default_table_access_method = 'heap' SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO' SET timezone = 'UTC' AS $$
DECLARE
    name text := format('%s_%s', parent,
                        to_char(starts_at, CASE WHEN starts_at = date_trunc('month', starts_at) THEN 'YYYYMM' ELSE 'YYYYMMDDHH24MISS' END));
BEGIN
    IF EXISTS (SELECT FROM headwater_private.leaves_of(make_leaf.parent) l WHERE l.leaf = name) THEN
        -- The name belongs to a leaf for other times.
        name := format('%s_%s', parent, to_char(starts_at, 'YYYYMMDDHH24MISS'));
    END IF;
    -- Create it first, then attach it: CREATE TABLE … PARTITION OF would lock everybody out.
    IF to_regclass(format('headwater_private.%I', name)) IS NULL THEN
        EXECUTE format('CREATE TABLE headwater_private.%I (LIKE headwater_private.events INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', name);
    END IF;
    PERFORM headwater_private.equip_leaf(name);
    -- In a transaction that keeps one snapshot, the catalog may show that somebody has attached it
    -- although the snapshot does not.
    IF pg_partition_root(to_regclass(format('headwater_private.%I', name))) IS NOT NULL THEN
        RETURN;
    END IF;
    DELETE FROM headwater_private.leaving_months v WHERE v.leaf = name;
    EXECUTE format('ALTER TABLE headwater_private.%I ATTACH PARTITION headwater_private.%I FOR VALUES FROM (%L) TO (%L)',
        parent, name, starts_at, ends_at);
END
$$;
