-- headwater_private.tail_tables()
-- Those tables of the current months, shared by all namespaces, that have events: the oldest first. Months are made ahead of
-- time and are empty until they begin; what looks something up for thousands of namespaces would look into each of
-- them every time. One lookup in such a table costs a third of one in the partitioned table `events`.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.tail_tables()
RETURNS text[] LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    leaf  text;
    holds boolean;
    found text[] := '{}';
BEGIN
    -- Those that all have sealed are not needed; they are taken out of `events` a month later.
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
