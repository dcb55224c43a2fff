-- headwater.export_rows(namespace)
-- Returns everything of a namespace except its events, as lines of an export. The first line has
-- its settings, and must be the first of the file. In the list of a SELECT the function streams,
-- however many rows there are.
-- What belongs to running programs is left out: nodes, leases, memberships, claims, slots. Claimed
-- events come as retries, as if their worker had handed them back at once. Letters that are being
-- delivered again come as dead. Terms are numbers of this server. A subscriber's term becomes 1. So
-- does the term of a dead letter that was delivered again, or of an attempt that failed, since the
-- subscriber began.
-- Raises: WH001, WH015 (others than the owner). Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.export_rows(namespace text, caller headwater.caller DEFAULT current_user)
RETURNS SETOF text LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO' SET intervalstyle = 'iso_8601' AS $$
    WITH ns AS MATERIALIZED (SELECT n.* FROM headwater_private.open_namespace(export_rows.namespace, caller, 'owner') n)
    SELECT jsonb_build_object('kind', 'namespace', 'format', 1, 'namespace', ns.namespace, 'ordering', ns.ordering, 'notify', ns.notify,
               'retention', ns.retention, 'max_payload_bytes', ns.max_payload_bytes, 'metadata', ns.metadata, 'created_at', ns.created_at,
               'months_made_by', ns.months_made_by, 'storage', ns.storage, 'index', ns.index, 'trimmed_to', ns.trimmed_to, 'kept_from', nullif(ns.kept_from, '-infinity'),
               -- When its oldest events may have been recorded.
               'recorded_from', CASE WHEN EXISTS (SELECT FROM headwater_private.months m WHERE m.namespace_id = ns.namespace_id) THEN '-infinity' ELSE ns.tail_from END,
               'head', CASE WHEN ns.sequence IS NULL THEN headwater_private.counted(ns.namespace_id) ELSE pg_sequence_last_value(ns.sequence) END)::text
      FROM ns
     UNION ALL
    SELECT jsonb_build_object('kind', 'streams', 'row', to_jsonb(s) - 'namespace_id')::text
      FROM ns JOIN headwater_private.streams s ON s.namespace_id = ns.namespace_id
     UNION ALL
    SELECT jsonb_build_object('kind', 'permanent_gaps', 'row', to_jsonb(g) - 'namespace_id')::text
      FROM ns JOIN headwater_private.permanent_gaps g ON g.namespace_id = ns.namespace_id
     UNION ALL
    SELECT jsonb_build_object('kind', 'subscribers', 'row', to_jsonb(s) - '{namespace_id,owner_node,owner_incarnation,lease_until,lease,locked,report,handling}'::text[]
               || '{"term": 1, "began_in_term": 1}'
               -- The row has only the end of a long ledger.
               || jsonb_build_object('pending_gaps', headwater_private.ledger_of(s.namespace_id, s.subscriber_id, s.partition, s.pending_gaps)))::text
      FROM ns JOIN headwater_private.subscribers s ON s.namespace_id = ns.namespace_id
     UNION ALL
    SELECT jsonb_build_object('kind', 'queue_states', 'row', jsonb_build_object('subscriber_id', q.subscriber_id, 'frontier', (q.state).frontier,
               'gaps', (q.state).gaps, 'open', (q.state).open))::text
      FROM ns JOIN headwater_private.queue_states q ON q.namespace_id = ns.namespace_id
     WHERE q.number IS NOT NULL
     UNION ALL
    SELECT jsonb_build_object('kind', 'retries', 'row', to_jsonb(r) - '{namespace_id,number,event_types}'::text[])::text
      FROM ns JOIN headwater_private.retries r ON r.namespace_id = ns.namespace_id
     WHERE NOT r.of_letter
     UNION ALL
    SELECT jsonb_build_object('kind', 'retries', 'row', jsonb_build_object('subscriber_id', c.subscriber_id, 'sequences', h.sequences,
               'attempts', c.attempts - 1, 'uncounted', c.uncounted, 'suspect', c.suspect, 'of_letter', false, 'failures', c.failures,
               'due_at', clock_timestamp()))::text
      FROM ns JOIN headwater_private.claims c ON c.namespace_id = ns.namespace_id
     CROSS JOIN LATERAL headwater_private.claimed_sequences(c.namespace_id, c.first_sequence, c.last_sequence, c.sequences, c.event_types) AS h(sequences)
     WHERE NOT c.done AND NOT c.of_letter AND h.sequences <> '{}'
     UNION ALL
    SELECT jsonb_build_object('kind', 'settled_ahead', 'row', to_jsonb(a) - 'namespace_id')::text
      FROM ns JOIN headwater_private.settled_ahead a ON a.namespace_id = ns.namespace_id
     UNION ALL
    SELECT jsonb_build_object('kind', 'dead_letters', 'row', to_jsonb(d) - 'namespace_id' || jsonb_build_object('term', CASE WHEN d.term >= s.began_in_term THEN 1 ELSE 0 END)
               || CASE WHEN s.mode = 'shared' THEN '{"queued": false}' ELSE '{}'::jsonb END
               || CASE WHEN s.mode = 'shared' AND d.state = 'redriving' THEN '{"state": "dead"}' ELSE '{}'::jsonb END)::text
      FROM ns JOIN headwater_private.dead_letters d ON d.namespace_id = ns.namespace_id
      LEFT JOIN headwater_private.subscribers s ON s.namespace_id = d.namespace_id AND s.subscriber_id = d.subscriber_id AND s.partition = 0
     UNION ALL
    SELECT jsonb_build_object('kind', 'failing_events', 'row', to_jsonb(f) - 'namespace_id' || jsonb_build_object('term', CASE WHEN f.term >= s.began_in_term THEN 1 ELSE 0 END))::text
      FROM ns JOIN headwater_private.failing_events f ON f.namespace_id = ns.namespace_id
      JOIN headwater_private.subscribers s ON s.namespace_id = f.namespace_id AND s.subscriber_id = f.subscriber_id AND s.partition = f.partition
     UNION ALL
    SELECT jsonb_build_object('kind', 'losses', 'row', to_jsonb(l) - 'namespace_id')::text
      FROM ns JOIN headwater_private.losses l ON l.namespace_id = ns.namespace_id
     UNION ALL
    SELECT jsonb_build_object('kind', 'states', 'row', to_jsonb(s) - 'namespace_id' || CASE WHEN s.state = 'null' THEN '{"state_is_null": true}' ELSE '{}'::jsonb END)::text
      FROM ns JOIN headwater_private.states s ON s.namespace_id = ns.namespace_id
     UNION ALL
    SELECT jsonb_build_object('kind', 'applied_events', 'row', to_jsonb(a) - 'namespace_id')::text
      FROM ns JOIN headwater_private.applied_events a ON a.namespace_id = ns.namespace_id
     UNION ALL
    -- Only one namespace follows a table, not also its copies.
    SELECT jsonb_build_object('kind', 'imports', 'row', to_jsonb(i) - '{namespace_id,follow_token,follow_notes}'::text[]
               || CASE WHEN i.follow_state IS NULL THEN '{}' ELSE '{"follow_state": "ended"}'::jsonb END)::text
      FROM ns JOIN headwater_private.imports i ON i.namespace_id = ns.namespace_id
     UNION ALL
    (SELECT jsonb_build_object('kind', 'due_events', 'row', to_jsonb(d) - '{namespace_id,due_id}'::text[])::text
       FROM ns JOIN headwater_private.due_events d ON d.namespace_id = ns.namespace_id ORDER BY d.due_id)
     UNION ALL
    SELECT jsonb_build_object('kind', 'schedules', 'row', to_jsonb(s) - '{namespace_id,job_id}'::text[], 'runs', coalesce(
               (SELECT jsonb_agg(to_jsonb(r) - 'task_id') FROM headwater_private.schedule_runs r WHERE r.task_id = s.task_id), '[]'))::text
      FROM ns JOIN headwater_private.schedules s ON s.namespace_id = ns.namespace_id
$$;
