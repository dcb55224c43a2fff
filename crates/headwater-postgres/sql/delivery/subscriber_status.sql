-- headwater.subscriber_status(namespace, only_subscriber)
-- Public: in docs/sql.md.
-- Lists the subscribers of a namespace, or one of them, as operators see them. A subscriber with
-- several partitions is represented by the partition that is furthest behind, by what it has not
-- settled, ahead of its position or in its ledger: see group_status. For a shared subscriber, the
-- lag is what nobody has claimed yet; queue_status tells more. It is cheap however long the log is:
-- events are looked up, never counted.
--   pending_gaps  its ledger: first, last, first, last, …; for a long ledger, ranges that each
--                 cover some hundred of its own
--   lease_left    NULL: the lease is over
--   lag_events    how far the log is ahead, in sequences: an upper bound for the number of events;
--                 0 if no event is ahead
--   lag           how long the first event that is ahead has been there
--   dead_letters  the open dead letters
-- Raises: WH001. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.subscriber_status(namespace text, only_subscriber text DEFAULT NULL, caller headwater.caller DEFAULT current_user)
RETURNS TABLE (subscriber_id text, mode text, partitions int, "position" bigint, last_event_id uuid, pending_gaps bigint[], owner_node text, owner_incarnation uuid,
               term bigint, lease_left interval, report jsonb, paused boolean, pause_reason text, lag_events bigint, lag interval,
               dead_letters bigint, created_at timestamptz, updated_at timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns   headwater_private.namespaces := headwater_private.open_namespace(subscriber_status.namespace, caller, 'consumer');
    -- Not the value of the sequence: reading it locks the sequence until the transaction ends, and
    -- the views ask for all namespaces.
    head bigint := CASE WHEN ns.sequence IS NOT NULL THEN headwater_private.newest_sequence(ns)
                        ELSE headwater_private.counted(ns.namespace_id) END;
BEGIN
    RETURN QUERY
    SELECT s.subscriber_id, s.mode, s.partitions, coalesce(q.position, s.position), s.last_event_id, coalesce(q.gaps, headwater_private.ledger_cover(s.namespace_id, s.subscriber_id, s.partition, s.pending_gaps)),
           s.owner_node, s.owner_incarnation, s.term,
           CASE WHEN s.owner_incarnation IS NOT NULL AND s.lease_until > clock_timestamp() THEN s.lease_until - clock_timestamp() END,
           s.report, s.paused, s.pause_reason,
           CASE WHEN ahead.recorded_at IS NULL THEN 0 ELSE greatest(head - coalesce(q.frontier, s.position), 1) END,
           coalesce(greatest(clock_timestamp() - ahead.recorded_at, interval '0'), interval '0'),
           coalesce(letters.open, 0), s.created_at, s.updated_at
      FROM (SELECT DISTINCT ON (s.subscriber_id) s.* FROM headwater_private.subscribers s
             WHERE s.namespace_id = ns.namespace_id
               AND (subscriber_status.only_subscriber IS NULL OR s.subscriber_id = subscriber_status.only_subscriber)
             ORDER BY s.subscriber_id, least(s.position, (headwater_private.ledger_cover(s.namespace_id, s.subscriber_id, s.partition, s.pending_gaps))[1] - 1), s.position, s.partition) s
      LEFT JOIN headwater.queue_status(subscriber_status.namespace, subscriber_status.only_subscriber) q
             ON s.mode = 'shared' AND q.subscriber_id = s.subscriber_id
      LEFT JOIN LATERAL (SELECT headwater_private.next_recorded_at(ns.namespace_id, coalesce(q.frontier, s.position)) AS recorded_at) ahead
             ON coalesce(q.frontier, s.position) < head
      -- One aggregate for all subscribers, not one per subscriber.
      LEFT JOIN (
            SELECT d.subscriber_id, count(*) AS open FROM headwater_private.dead_letters d
             WHERE d.namespace_id = ns.namespace_id AND d.state IN ('dead', 'parked', 'redriving')
               AND (subscriber_status.only_subscriber IS NULL OR d.subscriber_id = subscriber_status.only_subscriber)
             GROUP BY d.subscriber_id) letters ON letters.subscriber_id = s.subscriber_id
     ORDER BY s.subscriber_id;
END
$$;
