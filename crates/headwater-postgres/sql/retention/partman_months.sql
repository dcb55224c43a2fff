-- headwater_private.partman_months(namespace_id, this_month)
-- Makes pg_partman create the leaves of this month and the next two, and creates their indexes.
-- Months are in UTC. pg_partman drops nothing by itself: it knows no subscribers, so it has no
-- retention for these tables, and its own scheduled runs skip them. headwater.partman_drop asks it
-- to drop, month by month.
-- This is the place that knows pg_partman's signatures. 4.x has p_type 'native' and named
-- intervals, and always creates a default partition: rows in it would stop its maintenance, and it
-- forbids detaching without locks. 5.x has 'range' and PostgreSQL's intervals.
-- Raises: WH034 if it is not installed, and whatever pg_partman raises. Locks, writes: what
-- pg_partman does; part_config.
CREATE OR REPLACE FUNCTION headwater_private.partman_months(namespace_id int, this_month timestamptz)
RETURNS void LANGUAGE plpgsql SET datestyle = 'ISO' SET timezone = 'UTC' SET default_tablespace = '' SET default_table_access_method = 'heap' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    parent  text := format('headwater_private.events_n%s', namespace_id);
    partman record;
    call    text;
BEGIN
    partman := headwater_private.partman_of(partman_months.namespace_id);
    IF partman.schema IS NULL THEN
        PERFORM headwater_private.fail('WH034', 'pg_partman is not installed in this database', jsonb_build_object('extension', 'pg_partman'),
            'CREATE EXTENSION pg_partman, or make the namespace with built-in months');
    END IF;
    IF partman.knows THEN
        EXECUTE format('SELECT %I.run_maintenance($1)', partman.schema) USING parent;
    ELSE
        call := CASE WHEN partman.major < 5
            THEN 'SELECT %I.create_parent(p_parent_table => $1, p_control => ''recorded_at'', p_type => ''native'', p_interval => ''monthly'',
                                          p_premake => 2, p_automatic_maintenance => ''off'', p_start_partition => $2)'
            ELSE 'SELECT %I.create_parent(p_parent_table => $1, p_control => ''recorded_at'', p_type => ''range'', p_interval => ''1 month'',
                                          p_premake => 2, p_automatic_maintenance => ''off'', p_start_partition => $2, p_default_table => false)'
            END;
        EXECUTE format(call, partman.schema) USING parent, this_month::text;
        EXECUTE format('DROP TABLE IF EXISTS %s_default', parent);
        -- Without it, an empty log gets no new months.
        EXECUTE format('UPDATE %I.part_config SET infinite_time_partitions = true WHERE parent_table = $1', partman.schema) USING parent;
    END IF;
    PERFORM headwater_private.equip_leaf(l.leaf) FROM headwater_private.leaves(partman_months.namespace_id) l WHERE l.ends_at > this_month AND NOT l.detaching;
END
$$;
