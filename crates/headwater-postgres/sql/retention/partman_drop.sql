-- headwater_private.partman_drop(namespace, month)
-- Makes pg_partman drop the leaves of a trimmed month and of the months before it. A trimmed month
-- was sealed and is no longer part of the log. So however pg_partman drops it, no event goes that a
-- subscriber still needs. pg_partman gets a time just after the month, and no retention: it has no
-- retention of its own for these tables, and what is kept is never part of what it is asked to
-- drop. `month` is any time in it.
-- 4.x and 5.x have the same signature for this. If another session drops at the same moment, this
-- does nothing, and raises 55P03.
-- Raises: WH001, WH002 (the month is not trimmed), WH034 (pg_partman does not know the namespace),
-- 55P03 (try again), and whatever pg_partman raises. Locks: the namespace's partitioned table,
-- exclusively, for the moment of dropping: appends and reads wait that long. Writes: what
-- pg_partman does.
CREATE OR REPLACE FUNCTION headwater_private.partman_drop(namespace text, month timestamptz)
RETURNS int LANGUAGE plpgsql SET datestyle = 'ISO' SET timezone = 'UTC' SET lock_timeout = '500ms' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns      headwater_private.namespaces := headwater_private.namespace_row(partman_drop.namespace);
    partman record;
    m       headwater_private.months;
    dropped int;
BEGIN
    SELECT x.* INTO m FROM headwater_private.months x
     WHERE x.namespace_id = ns.namespace_id AND x.starts_at <= partman_drop.month AND x.ends_at > partman_drop.month;
    IF m.trimmed_at IS NULL OR m.ends_at > ns.kept_from THEN
        PERFORM headwater_private.fail('WH002', format('the month of %s is not trimmed', coalesce(partman_drop.month::text, 'NULL')),
            jsonb_build_object('what', 'month', 'value', partman_drop.month), 'see SELECT * FROM headwater.drop_steps(''namespace'')');
    END IF;
    partman := headwater_private.partman_of(ns.namespace_id);
    IF partman.knows IS NOT TRUE THEN
        PERFORM headwater_private.fail('WH034', format('namespace %L is not under the care of pg_partman in this database', partman_drop.namespace),
            jsonb_build_object('extension', 'pg_partman'), 'run what headwater.drop_steps answers');
    END IF;
    EXECUTE format('SELECT %I.drop_partition_time(p_parent_table => $1, p_retention => interval ''0'', p_keep_table => false,
                                                  p_reference_timestamp => $2)', partman.schema)
       INTO dropped USING format('headwater_private.events_n%s', ns.namespace_id), m.ends_at + interval '1 second';
    IF EXISTS (SELECT FROM headwater_private.leaves(ns.namespace_id) l WHERE l.ends_at <= m.ends_at) THEN
        RAISE lock_not_available USING MESSAGE = 'pg_partman did not drop all that is trimmed: another session may be at it';
    END IF;
    RETURN dropped;
END
$$;
