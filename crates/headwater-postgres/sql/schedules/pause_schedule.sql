-- headwater.pause_schedule(namespace, name)
-- Public: in docs/sql.md.
-- Pauses a schedule: nothing is fired until it is resumed, and due times in between do not count as
-- missed. Its pg_cron job, if it has one, is removed.
-- Raises: WH001, WH030. Locks: its row; it waits for a session that fires it. Writes: schedules; a
-- job of pg_cron.
CREATE OR REPLACE FUNCTION headwater.pause_schedule(namespace text, name text, caller headwater.caller DEFAULT current_user)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s headwater_private.schedules := headwater_private.schedule_row(pause_schedule.namespace, caller, pause_schedule.name);
BEGIN
    UPDATE headwater_private.schedules x SET active = false, updated_at = clock_timestamp() WHERE x.task_id = s.task_id;
    PERFORM headwater_private.set_cron_job(s.task_id);
END
$$;
