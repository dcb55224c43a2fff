-- headwater_private.create_leaf(namespace_id, month)
-- Makes the table that holds one month of events, of a namespace or of all that share their months, or as much of that month as no partition holds yet. `month` is any time in it.
-- A table that has the leaf's name, but was detached, is attached again. Bounds are written as text, so its form is pinned.
-- Locks: SHARE UPDATE EXCLUSIVE on the table (readers and writers go on), and a
-- latch against other creators. Writes: the leaf and its indexes, and which leaf tail_events names. Raises: nothing of its own.
CREATE OR REPLACE FUNCTION headwater_private.create_leaf(namespace_id int, month timestamptz)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO' SET timezone = 'UTC' AS $$
DECLARE
    ns       headwater_private.namespaces;
    parent   text;
    lower_at timestamptz := date_trunc('month', month);
    upper_at timestamptz := lower_at + interval '1 month';
    missing  record;
    name     text;
BEGIN
    SELECT n.* INTO ns FROM headwater_private.namespaces n WHERE n.namespace_id = create_leaf.namespace_id;
    parent := headwater_private.log_table(ns);
    PERFORM headwater_private.latch(CASE ns.storage WHEN 'own' THEN ns.namespace_id ELSE 0 END, 'months');
    FOR missing IN SELECT m.* FROM headwater_private.missing_months(create_leaf.namespace_id, lower_at, upper_at) m LOOP
        name := format('%s_%s', parent, to_char(missing.starts_at, CASE WHEN missing.starts_at = lower_at THEN 'YYYYMM' ELSE 'YYYYMMDDHH24MISS' END));
        IF EXISTS (SELECT FROM headwater_private.leaves(create_leaf.namespace_id) l WHERE l.leaf = name) THEN
            -- The name belongs to a leaf of other times.
            name := format('%s_%s', parent, to_char(missing.starts_at, 'YYYYMMDDHH24MISS'));
        END IF;
        -- Made first, attached then: CREATE TABLE … PARTITION OF would lock everybody out.
        IF to_regclass(format('headwater_private.%I', name)) IS NULL THEN
            EXECUTE format('CREATE TABLE headwater_private.%I (LIKE headwater_private.events INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', name);
        END IF;
        PERFORM headwater_private.equip_leaf(name);
        EXECUTE format('ALTER TABLE headwater_private.%I ATTACH PARTITION headwater_private.%I FOR VALUES FROM (%L) TO (%L)',
            parent, name, missing.starts_at, missing.ends_at);
    END LOOP;
    IF ns.storage = 'shared' THEN
        PERFORM headwater_private.name_tail();
    END IF;
END
$$;
