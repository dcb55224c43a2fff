-- headwater.purge_dropped(max_rows)
-- Public: in docs/sql.md.
-- Deletes what dropped namespaces left behind: up to max_rows of a table, or one table of their
-- own, so that locks do not grow with the number of months. Returns how many rows or tables; 0:
-- nothing is left, or somebody uses what is left.
-- Raises: WH002, WH015 (others than the owner). Locks, writes: these rows and tables; months,
-- left_behind.
CREATE OR REPLACE FUNCTION headwater.purge_dropped(max_rows int DEFAULT 10000, caller headwater.caller DEFAULT current_user)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET enable_seqscan = off SET jit = off SET lock_timeout = '5s' SET client_min_messages = 'warning' SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    gone   record;
    part   record;
    purged bigint;
    tree   text;
    dropped text;
BEGIN
    PERFORM headwater_private.require_owner(caller);
    IF coalesce(purge_dropped.max_rows NOT BETWEEN 1 AND 1000000, true) THEN
        PERFORM headwater_private.fail('WH002', format('invalid max_rows %s', coalesce(purge_dropped.max_rows::text, 'NULL')),
            jsonb_build_object('what', 'max_rows', 'value', purge_dropped.max_rows), 'max_rows is 1 to 1000000');
    END IF;
    -- Two sessions that purge do not wait for each other.
    FOR gone IN SELECT d.namespace_id FROM headwater_private.dropped_namespaces d WHERE d.has_rows
                 ORDER BY d.namespace_id FOR UPDATE SKIP LOCKED LOOP
        DELETE FROM headwater_private.events e
         WHERE e.namespace_id = gone.namespace_id
           AND e.global_sequence <= (SELECT max(f.global_sequence)
                                       FROM (SELECT e.global_sequence FROM headwater_private.events e WHERE e.namespace_id = gone.namespace_id
                                              ORDER BY e.global_sequence LIMIT purge_dropped.max_rows) f);
        GET DIAGNOSTICS purged = ROW_COUNT;
        FOR part IN SELECT t.name FROM headwater_private.tables_by_namespace() t WHERE t.large AND purged = 0 LOOP
            EXECUTE format('DELETE FROM headwater_private.%1$I
                             WHERE ctid = ANY (ARRAY(SELECT e.ctid FROM headwater_private.%1$I e WHERE e.namespace_id = $1 LIMIT $2))', part.name)
              USING gone.namespace_id, purge_dropped.max_rows;
            GET DIAGNOSTICS purged = ROW_COUNT;
            EXIT WHEN purged > 0;
        END LOOP;
        IF purged > 0 THEN
            RETURN purged;
        END IF;
        -- Its own tables: first the attached months, then the detached ones, then the partitioned
        -- table itself.
        tree := format('events_n%s', gone.namespace_id);
        SELECT t.leaf INTO dropped
          FROM (SELECT l.leaf FROM headwater_private.leaves_of(tree) l
                 UNION
                SELECT m.leaf FROM headwater_private.months m WHERE m.namespace_id = gone.namespace_id AND m.leaf ~ '^events_n') t
         WHERE to_regclass(format('headwater_private.%I', t.leaf)) IS NOT NULL
         ORDER BY t.leaf LIMIT 1;
        dropped := coalesce(dropped, tree);
        IF to_regclass(format('headwater_private.%I', dropped)) IS NOT NULL THEN
            BEGIN
                EXECUTE format('DROP TABLE headwater_private.%I', dropped);
            EXCEPTION WHEN lock_not_available THEN
                -- Somebody reads it. Maintenance comes again.
                CONTINUE;
            END;
            DELETE FROM headwater_private.leaving_months v WHERE v.leaf = dropped;
            RETURN 1;
        END IF;
        -- A month that is attached now was attached when nothing was found: none of its rows are
        -- left there. A month that was detached in the meantime may still have some.
        DELETE FROM headwater_private.left_behind b USING headwater_private.leaves_of('events') l
         WHERE b.namespace_id = gone.namespace_id AND l.leaf = b.leaf AND NOT l.detaching;
        DELETE FROM headwater_private.months m USING headwater_private.leaves_of('events') l
         WHERE m.namespace_id = gone.namespace_id AND l.leaf = m.leaf AND NOT l.detaching;
        UPDATE headwater_private.dropped_namespaces d SET has_rows = false WHERE d.namespace_id = gone.namespace_id;
    END LOOP;
    -- If the tables of past months are gone too, forget the namespace.
    DELETE FROM headwater_private.months m
     USING headwater_private.dropped_namespaces d
     WHERE NOT d.has_rows AND m.namespace_id = d.namespace_id
       AND (m.last_sequence IS NULL OR to_regclass(format('headwater_private.%I', m.leaf)) IS NULL);
    DELETE FROM headwater_private.dropped_namespaces d
     WHERE NOT d.has_rows AND NOT EXISTS (SELECT FROM headwater_private.months m WHERE m.namespace_id = d.namespace_id);
    RETURN 0;
END
$$;
