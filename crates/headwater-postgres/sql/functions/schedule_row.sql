-- headwater.schedule_row(namespace, name)
-- A schedule, locked.
-- Raises: WH001, WH030 if there is no such schedule. Locks: its row. Writes: nothing.
CREATE OR REPLACE FUNCTION headwater.schedule_row(namespace text, name text)
RETURNS headwater.schedules LANGUAGE plpgsql AS $$
DECLARE
    ns headwater.namespaces := headwater.namespace_row(schedule_row.namespace);
    s  headwater.schedules;
BEGIN
    SELECT x.* INTO s FROM headwater.schedules x
     WHERE x.namespace_id = ns.namespace_id AND x.name = schedule_row.name FOR UPDATE;
    IF NOT FOUND THEN
        PERFORM headwater.fail('WH030', format('schedule %L does not exist', coalesce(left(schedule_row.name, 80), 'NULL')),
            jsonb_build_object('schedule', left(schedule_row.name, 80)),
            'see which there are: SELECT name FROM headwater.schedule_status(''namespace'')');
    END IF;
    RETURN s;
END
$$;
