-- headwater_private.tail_tables()
-- Lists the tables of current months, shared by all namespaces, that have events: the oldest first.
-- Months are created ahead of time and are empty until they begin. A lookup for thousands of
-- namespaces would otherwise look into each of them every time. One lookup in such a table costs a
-- third of one in the partitioned table `events`.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.tail_tables()
RETURNS text[] LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    leaf  text;
    holds boolean;
    found text[] := '{}';
BEGIN
    -- Tables that all namespaces have sealed are not needed. They are detached from `events` a
    -- month later.
    FOR leaf IN SELECT format('headwater_private.%I', l.leaf)
                  FROM (SELECT n.namespace_id, n.tail_from FROM headwater_private.namespaces n WHERE n.storage = 'shared' ORDER BY n.tail_from LIMIT 1) n
                 CROSS JOIN LATERAL headwater_private.leaves(n.namespace_id) l
                 WHERE l.ends_at > n.tail_from ORDER BY l.starts_at LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM %s)', leaf) INTO holds;
        IF holds THEN
            found := found || leaf;
        END IF;
    END LOOP;
    RETURN found;
END
$$;
