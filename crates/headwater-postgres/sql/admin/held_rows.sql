-- headwater_private.held_rows(namespace_id)
-- Lists the rows of a namespace that somebody may have locked, and for which others wait, or which
-- they leave out: what each row is (see headwater.holders), and its xmax. Streams are not among
-- them: a transaction that locks a stream has entered the log, or holds the counter.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.held_rows(namespace_id int)
RETURNS TABLE (holds text, name text, relation regclass, row_xmax xid) LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT DISTINCT r.*
      FROM (SELECT 'counter', NULL::text, 'headwater_private.counters'::regclass, c.xmax FROM headwater_private.counters c
             WHERE c.namespace_id = held_rows.namespace_id
             UNION ALL
            SELECT 'settings', NULL, 'headwater_private.namespaces', n.xmax FROM headwater_private.namespaces n WHERE n.namespace_id = held_rows.namespace_id
             UNION ALL
            SELECT 'latch', l.what, 'headwater_private.latches', l.xmax FROM headwater_private.latches l
             WHERE l.namespace_id IN (held_rows.namespace_id, 0)
             UNION ALL
            SELECT 'queue', q.subscriber_id, 'headwater_private.queues', q.xmax FROM headwater_private.queues q
             WHERE q.namespace_id = held_rows.namespace_id
             UNION ALL
            SELECT 'subscriber', s.subscriber_id, 'headwater_private.subscribers', s.xmax FROM headwater_private.subscribers s
             WHERE s.namespace_id = held_rows.namespace_id
             UNION ALL
            SELECT 'claim', c.subscriber_id, 'headwater_private.claims', c.xmax FROM headwater_private.claims c
             WHERE c.namespace_id = held_rows.namespace_id AND NOT c.done
             UNION ALL
            SELECT 'schedule', s.name, 'headwater_private.schedules', s.xmax FROM headwater_private.schedules s WHERE s.namespace_id = held_rows.namespace_id
             UNION ALL
            (SELECT 'due_event', NULL, 'headwater_private.due_events', d.xmax FROM headwater_private.due_events d
              WHERE d.namespace_id = held_rows.namespace_id AND d.fire_at <= clock_timestamp() ORDER BY d.fire_at LIMIT 1000)
           ) AS r(holds, name, relation, row_xmax)
     WHERE r.row_xmax::text <> '0'
$$;
