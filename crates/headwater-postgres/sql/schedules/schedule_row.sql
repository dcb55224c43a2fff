-- headwater_private.schedule_row(namespace, caller, name)
-- Returns a schedule, and locks it, for a producer.
-- Raises: WH001, WH015, WH030 if there is no such schedule. Locks: its row. Writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.schedule_row(namespace text, caller name, name text)
RETURNS headwater_private.schedules LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns headwater_private.namespaces := headwater_private.open_namespace(schedule_row.namespace, caller, 'producer');
    s  headwater_private.schedules;
BEGIN
    SELECT x.* INTO s FROM headwater_private.schedules x
     WHERE x.namespace_id = ns.namespace_id AND x.name = schedule_row.name FOR UPDATE;
    IF NOT FOUND THEN
        PERFORM headwater_private.fail('WH030', format('schedule %L does not exist', coalesce(left(schedule_row.name, 80), 'NULL')),
            jsonb_build_object('schedule', left(schedule_row.name, 80)),
            'see which there are: SELECT name FROM headwater.schedule_status(''namespace'')');
    END IF;
    RETURN s;
END
$$;
