-- headwater.run_schedule_now(namespace, name, event_id, notify)
-- Public: in docs/sql.md.
-- Appends a schedule's event at once, in the caller's transaction, even if the schedule is paused.
-- Later due times do not change. Returns the event's sequence. A call that is sent again with the
-- same event_id returns the result of the first call.
-- Raises: WH001, WH030; see append_batch. Locks: its row; see append_batch. Writes: schedule_runs;
-- see append_batch.
CREATE OR REPLACE FUNCTION headwater.run_schedule_now(
    namespace text, name text, event_id uuid DEFAULT NULL, notify boolean DEFAULT true,
    caller headwater.caller DEFAULT current_user
) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s  headwater_private.schedules := headwater_private.schedule_row(run_schedule_now.namespace, caller, run_schedule_now.name);
    id uuid := coalesce(run_schedule_now.event_id, headwater.uuid_v7());
BEGIN
    PERFORM headwater_private.append_runs(run_schedule_now.namespace, ARRAY[s.task_id], ARRAY[clock_timestamp()], ARRAY[id], 'manual',
                                  run_schedule_now.notify, NULL);
    PERFORM headwater_private.prune_runs(ARRAY[s.task_id]);
    RETURN (SELECT r.global_sequence FROM headwater_private.schedule_runs r WHERE r.task_id = s.task_id AND r.run_id = id);
END
$$;
