-- headwater_private.append_due(namespace, event_ids, notify, patience_ms)
-- Appends waiting events to the log, in the given order, as one batch, and removes them from the
-- waiting events. append_batch describes `notify` and `patience_ms`. Returns how many were
-- appended. An event that is in the log already is not appended, but no longer waits either.
-- Raises: what append_batch raises; one event that cannot be appended fails all of them. Locks,
-- writes: see append_batch; the events' rows.
CREATE OR REPLACE FUNCTION headwater_private.append_due(namespace text, event_ids uuid[], notify boolean, patience_ms int)
RETURNS int LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns      headwater_private.namespaces := headwater_private.namespace_row(append_due.namespace);
    e       record;
    retried boolean;
BEGIN
    -- Sort only ids and streams, and look up the rest of each event in that order, so that no
    -- payload is carried through a sort.
    SELECT array_agg(x.ord::int) AS requests, array_agg(d.event_id) AS ids, array_agg(d.event_type) AS types, array_agg(d.data::text) AS data,
           array_agg(d.stream_id) AS streams, array_agg(CASE WHEN d.stream_id IS NOT NULL THEN x.write END) AS writes,
           array_agg(CASE WHEN d.stream_id IS NOT NULL THEN x.write_offset END) AS offsets, array_agg(d.schema_version) AS schema_versions,
           array_agg(d.key) AS keys, array_agg(d.actor_id) AS actors, array_agg(d.correlation_id) AS correlations,
           array_agg(d.causation_id) AS causations, array_agg(d.headers::text) AS headers, array_agg(d.created_at) AS created,
           -- One write per event of a stream: each is a request of its own, and expects any
           -- version.
           array_agg(x.ord::int) FILTER (WHERE d.stream_id IS NOT NULL) AS write_requests,
           array_agg(d.stream_id) FILTER (WHERE d.stream_id IS NOT NULL) AS write_streams,
           array_agg(1) FILTER (WHERE d.stream_id IS NOT NULL) AS write_counts
      INTO e
      FROM (SELECT i.event_id, i.ord, (count(s.stream_id) OVER (ORDER BY i.ord))::int AS write,
                   (row_number() OVER (PARTITION BY s.stream_id ORDER BY i.ord))::int AS write_offset
              FROM (SELECT u.event_id, row_number() OVER (ORDER BY u.ord) AS ord
                      FROM unnest(append_due.event_ids) WITH ORDINALITY AS u(event_id, ord)) i
              JOIN headwater_private.due_events s ON s.namespace_id = ns.namespace_id AND s.event_id = i.event_id
             ORDER BY i.ord) x
     CROSS JOIN LATERAL (SELECT d.* FROM headwater_private.due_events d WHERE d.namespace_id = ns.namespace_id AND d.event_id = x.event_id OFFSET 0) d;
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
