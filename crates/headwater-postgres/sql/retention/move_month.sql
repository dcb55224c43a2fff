-- headwater_private.move_month(ns, month)
-- Copies a sealed month of a namespace to the kind of table that its storage asks for, and makes
-- headwater_private.months name the new table. The old table keeps its rows until it is dropped as
-- a whole, so a reader that chose it a moment ago reads it to the end. Returns how many events were
-- moved.
--   own      The new table is attached to the namespace's own table. What stays in the table that
--            namespaces share is recorded in left_behind.
--   shared   It becomes a table that namespaces share. Other shared tables of the same month that
--            have at most four times its events are copied into it too. So a namespace costs at
--            most five times its own events, and there are few tables, however many namespaces are
--            moved.
-- Raises: 40001 if the month was trimmed in the meantime. Locks: latches; the rows of months.
-- Writes: the new table, months, left_behind.
CREATE OR REPLACE FUNCTION headwater_private.move_month(ns headwater_private.namespaces, month headwater_private.months)
RETURNS bigint LANGUAGE plpgsql SET default_tablespace = '' SET default_table_access_method = 'heap' SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO' SET timezone = 'UTC' AS $$
#variable_conflict use_column
DECLARE
    parent constant text := headwater_private.log_table(ns);
    made   text;
    ids    int[];
    leaves text[];
    copied bigint[];
BEGIN
    PERFORM headwater_private.latch(0, 'rewrite');
    made := headwater_private.new_leaf_name(format('%s_%s', parent, to_char(month.starts_at,
                CASE WHEN month.starts_at = date_trunc('month', month.starts_at) THEN 'YYYYMM' ELSE 'YYYYMMDDHH24MISS' END)));
    EXECUTE format('CREATE TABLE headwater_private.%I (LIKE headwater_private.events INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', made);
    SELECT array_agg(p.namespace_id), array_agg(p.leaf) INTO ids, leaves
      FROM (SELECT m.namespace_id, m.leaf FROM headwater_private.months m
             WHERE m.namespace_id = ns.namespace_id AND m.starts_at = month.starts_at
             UNION ALL
            SELECT m.namespace_id, m.leaf FROM headwater_private.months m
              JOIN (SELECT o.leaf FROM headwater_private.months o
                     WHERE ns.storage = 'shared' AND o.trimmed_at IS NULL AND o.leaf !~ '^events_n' AND o.last_sequence IS NOT NULL
                       AND o.starts_at = month.starts_at AND o.ends_at = month.ends_at
                       AND NOT EXISTS (SELECT FROM pg_catalog.pg_inherits i WHERE i.inhrelid = to_regclass(format('headwater_private.%I', o.leaf)))
                     GROUP BY o.leaf
                    HAVING sum(coalesce(o.events, o.last_sequence - o.first_sequence + 1))
                           <= 4 * coalesce(month.events, month.last_sequence - month.first_sequence + 1)) s ON s.leaf = m.leaf
             WHERE m.trimmed_at IS NULL) p;
    FOR i IN 1 .. cardinality(ids) LOOP
        copied[i] := headwater_private.copy_events(leaves[i], made, ids[i]);
    END LOOP;
    PERFORM headwater_private.equip_leaf(made);
    PERFORM headwater_private.guard_month(made, true);
    -- Update the rows of months at the end, because a session that trims one of them waits for
    -- this.
    UPDATE headwater_private.months m SET leaf = made
      FROM unnest(ids, leaves) AS p(namespace_id, leaf)
     WHERE m.namespace_id = p.namespace_id AND m.leaf = p.leaf AND m.starts_at = month.starts_at AND m.trimmed_at IS NULL;
    IF NOT EXISTS (SELECT FROM headwater_private.months m
                    WHERE m.namespace_id = ns.namespace_id AND m.starts_at = month.starts_at AND m.leaf = made) THEN
        RAISE serialization_failure USING MESSAGE = format('month %s was trimmed meanwhile', month.leaf);
    END IF;
    INSERT INTO headwater_private.left_behind (leaf, namespace_id, events)
    SELECT p.leaf, p.namespace_id, greatest(p.events, 1) FROM unnest(ids, leaves, copied) AS p(namespace_id, leaf, events)
     WHERE p.leaf !~ '^events_n'
     UNION ALL
    -- Copied, and trimmed at the same time.
    SELECT made, p.namespace_id, greatest(p.events, 1) FROM unnest(ids, copied) AS p(namespace_id, events)
     WHERE NOT EXISTS (SELECT FROM headwater_private.months m WHERE m.namespace_id = p.namespace_id AND m.leaf = made)
    ON CONFLICT ON CONSTRAINT left_behind_pkey DO NOTHING;
    IF ns.storage = 'own' THEN
        PERFORM headwater_private.latch(ns.namespace_id, 'months');
        EXECUTE format('ALTER TABLE headwater_private.%I ATTACH PARTITION headwater_private.%I FOR VALUES FROM (%L) TO (%L)',
            parent, made, month.starts_at, month.ends_at);
    END IF;
    RETURN copied[array_position(ids, ns.namespace_id)];
END
$$;
