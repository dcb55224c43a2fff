-- headwater_private.append_due(namespace, event_ids, notify, patience_ms)
-- Appends waiting events to the log, in the given order, as one batch, and removes them from those that wait. `notify` and `patience_ms` are
-- those of append_batch. Answers how many were appended: one that is in the log already is not, but no longer waits either.
-- Raises: what append_batch raises; of several, one that cannot be appended fails all. Locks, writes: see append_batch; the events' rows.
CREATE OR REPLACE FUNCTION headwater_private.append_due(namespace text, event_ids uuid[], notify boolean, patience_ms int)
RETURNS int LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns      headwater_private.namespaces := headwater_private.namespace_row(append_due.namespace);
    e       record;
    retried boolean;
BEGIN
    SELECT array_agg(x.ord::int ORDER BY x.ord) AS requests,
           array_agg(x.event_id ORDER BY x.ord) AS ids, array_agg(x.event_type ORDER BY x.ord) AS types,
           array_agg(x.data::text ORDER BY x.ord) AS data, array_agg(x.stream_id ORDER BY x.ord) AS streams,
           array_agg(CASE WHEN x.stream_id IS NOT NULL THEN x.write END ORDER BY x.ord) AS writes,
           array_agg(CASE WHEN x.stream_id IS NOT NULL THEN x.write_offset END ORDER BY x.ord) AS offsets,
           array_agg(x.schema_version ORDER BY x.ord) AS schema_versions, array_agg(x.key ORDER BY x.ord) AS keys,
           array_agg(x.actor_id ORDER BY x.ord) AS actors, array_agg(x.correlation_id ORDER BY x.ord) AS correlations,
           array_agg(x.causation_id ORDER BY x.ord) AS causations, array_agg(x.headers::text ORDER BY x.ord) AS headers,
           array_agg(x.created_at ORDER BY x.ord) AS created,
           -- one write an event of a stream: each of them is a request of its own, and expects any version
           array_agg(x.ord::int ORDER BY x.ord) FILTER (WHERE x.stream_id IS NOT NULL) AS write_requests,
           array_agg(x.stream_id ORDER BY x.ord) FILTER (WHERE x.stream_id IS NOT NULL) AS write_streams,
           array_agg(1) FILTER (WHERE x.stream_id IS NOT NULL) AS write_counts
      INTO e
      FROM (SELECT d.*, i.ord, (count(d.stream_id) OVER (ORDER BY i.ord))::int AS write,
                   (row_number() OVER (PARTITION BY d.stream_id ORDER BY i.ord))::int AS write_offset
              FROM (SELECT u.event_id, row_number() OVER (ORDER BY u.ord) AS ord
                      FROM unnest(append_due.event_ids) WITH ORDINALITY AS u(event_id, ord)) i
              JOIN headwater_private.due_events d ON d.namespace_id = ns.namespace_id AND d.event_id = i.event_id) x;
    IF e.ids IS NULL THEN
        RETURN 0;
    END IF;
    SELECT b.retried INTO retried FROM headwater.append_batch(append_due.namespace,
        CASE WHEN cardinality(e.ids) > 1 THEN e.requests END, e.ids, e.types, e.data, e.streams, e.writes, e.offsets, e.schema_versions,
        e.keys, e.actors, e.correlations, e.causations, e.headers, e.created, e.write_requests, e.write_streams, e.write_counts, NULL,
        append_due.notify, append_due.patience_ms) b;
    DELETE FROM headwater_private.due_events d WHERE d.namespace_id = ns.namespace_id AND d.event_id = ANY (e.ids);
    RETURN CASE WHEN retried THEN 0 ELSE cardinality(e.ids) END;
END
$$;
