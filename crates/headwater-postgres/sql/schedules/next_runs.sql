-- headwater.next_runs(expression, timezone, after, count)
-- Public: in docs/sql.md.
-- Lists the next due times of a cron expression, to check it before it is scheduled: as moments,
-- and as the clocks of the time zone show them.
-- Raises: WH002 (bad expression, unknown time zone, after, count not 1 to 1,000). Locks, writes:
-- nothing.
CREATE OR REPLACE FUNCTION headwater.next_runs(expression text, timezone text DEFAULT 'UTC', after timestamptz DEFAULT NULL, count int DEFAULT 5)
RETURNS TABLE (due_at timestamptz, local_time text) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    c headwater_private.cron := headwater_private.cron_fields(next_runs.expression);
BEGIN
    PERFORM headwater_private.check_timezone(next_runs.timezone);
    IF next_runs.count IS NULL OR next_runs.count NOT BETWEEN 1 AND 1000 THEN
        PERFORM headwater_private.fail('WH002', format('invalid count %s', coalesce(next_runs.count::text, 'NULL')),
            jsonb_build_object('what', 'count', 'value', next_runs.count), 'count is 1 to 1000');
    END IF;
    PERFORM headwater_private.check_time('after', next_runs.after);
    due_at := coalesce(next_runs.after, clock_timestamp());
    FOR n IN 1..next_runs.count LOOP
        due_at := headwater_private.cron_after(c, next_runs.timezone, due_at);
        EXIT WHEN due_at IS NULL;
        local_time := headwater_private.zoned_time(due_at, next_runs.timezone);
        RETURN NEXT;
    END LOOP;
END
$$;
