-- headwater_private.append_runs(namespace, task_ids, due_ats, event_ids, outcome, notify,
-- patience_ms)
-- Appends the events of schedules for some of their due times, in the given order, as one batch,
-- and writes their runs. append_batch describes `notify` and `patience_ms`. Returns how many were
-- appended. An event that is in the log already is not appended, but its run is written all the
-- same.
-- Raises: what append_batch raises; one event that cannot be appended fails all of them. Locks,
-- writes: see append_batch; schedule_runs.
CREATE OR REPLACE FUNCTION headwater_private.append_runs(
    namespace text, task_ids uuid[], due_ats timestamptz[], event_ids uuid[], outcome text, notify boolean, patience_ms int
) RETURNS int LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    e record;
    b record;
BEGIN
    SELECT array_agg(x.ord::int ORDER BY x.ord) AS requests, array_agg(x.event_type ORDER BY x.ord) AS types,
           array_agg(x.payload::text ORDER BY x.ord) AS data, array_agg(x.stream_id ORDER BY x.ord) AS streams,
           array_agg(CASE WHEN x.stream_id IS NOT NULL THEN x.write END ORDER BY x.ord) AS writes,
           array_agg(CASE WHEN x.stream_id IS NOT NULL THEN x.write_offset END ORDER BY x.ord) AS offsets,
           array_agg(x.key ORDER BY x.ord) AS keys,
           array_agg(jsonb_build_object('scheduled_task_id', x.task_id, 'producer_node_id', 'scheduler', 'schedule', x.name,
                         'scheduled_at', to_char(x.run_due_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))::text ORDER BY x.ord) AS headers,
           -- One write per event of a stream: each is a request of its own, and expects any
           -- version.
           array_agg(x.ord::int ORDER BY x.ord) FILTER (WHERE x.stream_id IS NOT NULL) AS write_requests,
           array_agg(x.stream_id ORDER BY x.ord) FILTER (WHERE x.stream_id IS NOT NULL) AS write_streams,
           array_agg(1) FILTER (WHERE x.stream_id IS NOT NULL) AS write_counts
      INTO e
      FROM (SELECT s.*, r.due_at AS run_due_at, r.ord, (count(s.stream_id) OVER (ORDER BY r.ord))::int AS write,
                   (row_number() OVER (PARTITION BY s.stream_id ORDER BY r.ord))::int AS write_offset
              FROM unnest(append_runs.task_ids, append_runs.due_ats) WITH ORDINALITY AS r(task_id, due_at, ord)
              JOIN headwater_private.schedules s ON s.task_id = r.task_id) x;
    SELECT a.* INTO b FROM headwater.append_batch(append_runs.namespace,
        CASE WHEN cardinality(append_runs.event_ids) > 1 THEN e.requests END, append_runs.event_ids, e.types, e.data, e.streams, e.writes, e.offsets, NULL,
        e.keys, NULL, NULL, NULL, e.headers, NULL, e.write_requests, e.write_streams, e.write_counts, NULL, append_runs.notify, append_runs.patience_ms) a;
    INSERT INTO headwater_private.schedule_runs AS t (task_id, run_id, due_at, ran_at, global_sequence, attempts, outcome)
    SELECT r.task_id, r.event_id, r.due_at, clock_timestamp(), r.sequence, 1, append_runs.outcome
      FROM unnest(append_runs.task_ids, append_runs.due_ats, append_runs.event_ids, b.sequences) AS r(task_id, due_at, event_id, sequence)
    ON CONFLICT (task_id, run_id) DO UPDATE
       SET ran_at = excluded.ran_at, global_sequence = excluded.global_sequence, attempts = t.attempts + 1, outcome = excluded.outcome, error = NULL;
    RETURN CASE WHEN b.retried THEN 0 ELSE cardinality(append_runs.event_ids) END;
END
$$;
