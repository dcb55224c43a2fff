-- How long after their due time the events of schedules were committed, in microseconds. NULL if
-- the server does not record commit times.
SELECT CASE WHEN current_setting('track_commit_timestamp')::boolean
            THEN (extract(epoch FROM pg_xact_commit_timestamp(e.xmin) - $2) * 1000000)::bigint END
  FROM headwater_private.events e
 WHERE e.namespace_id = $1 AND (e.headers ->> 'scheduled_at')::timestamptz = $2
