-- headwater_private.schedule_event_id(task_id, due_at)
-- Returns the id of the event that a schedule appends for a due time. It is always the same, so
-- that the log takes the event once, whichever process sends it. It is ordered by time, as version
-- 7 ids are.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.schedule_event_id(task_id uuid, due_at timestamptz)
RETURNS uuid LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT encode(set_byte(set_byte(x.bytes, 6, get_byte(x.bytes, 6) & 15 | 112), 8, get_byte(x.bytes, 8) & 63 | 128), 'hex')::uuid
      FROM (SELECT overlay(decode(md5(schedule_event_id.task_id::text || t.microseconds), 'hex')
                           PLACING substring(int8send(t.microseconds / 1000) FROM 3) FROM 1 FOR 6) AS bytes
              FROM (SELECT (extract(epoch FROM schedule_event_id.due_at) * 1000000)::bigint AS microseconds) t) x
$$;
