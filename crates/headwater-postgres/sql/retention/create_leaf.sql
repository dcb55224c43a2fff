-- headwater_private.create_leaf(namespace_id, month)
-- Creates the table that holds one month of events, for one namespace or for all namespaces that
-- share their months, or the part of that month that no table holds yet. `month` is any time in it.
-- Locks: SHARE UPDATE EXCLUSIVE on the partitioned table (readers and writers go on), and a latch
-- against other creators, both until the transaction ends. Writes: the leaf and its indexes, and
-- which leaf tail_events names. Raises: nothing of its own.
CREATE OR REPLACE FUNCTION headwater_private.create_leaf(namespace_id int, month timestamptz)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    ns       headwater_private.namespaces;
    lower_at timestamptz := date_trunc('month', month);
    missing  record;
BEGIN
    SELECT n.* INTO ns FROM headwater_private.namespaces n WHERE n.namespace_id = create_leaf.namespace_id;
    PERFORM headwater_private.latch(CASE ns.storage WHEN 'own' THEN ns.namespace_id ELSE 0 END, 'months');
    FOR missing IN SELECT m.* FROM headwater_private.missing_months(create_leaf.namespace_id, lower_at, lower_at + interval '1 month') m LOOP
        PERFORM headwater_private.make_leaf(headwater_private.log_table(ns), missing.starts_at, missing.ends_at);
    END LOOP;
    IF ns.storage = 'shared' THEN
        PERFORM headwater_private.name_tail();
    END IF;
END
$$;
