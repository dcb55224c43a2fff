-- headwater_private.kept_until(ends_at, retention)
-- Returns until when a namespace keeps a month that ended at `ends_at`. Days and months are in UTC,
-- not in the session's time zone. NULL: forever.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.kept_until(ends_at timestamptz, retention interval)
RETURNS timestamptz LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT ((kept_until.ends_at AT TIME ZONE 'UTC') + kept_until.retention) AT TIME ZONE 'UTC'
$$;
