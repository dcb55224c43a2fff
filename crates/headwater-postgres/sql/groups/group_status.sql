-- headwater.group_status(namespace, subscriber_id)
-- Public: in docs/sql.md.
-- Lists the partitions of a subscriber, as operators see them. It is as cheap as subscriber_status.
--   pending_gaps  its ledger: first, last, first, last, …; for a long ledger, ranges that each
--                 cover some hundred of its own
--   lag_events    how far the log is ahead, in sequences of all partitions: an upper bound for the
--                 number of events
-- Raises: WH001, WH012. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.group_status(namespace text, subscriber_id text, caller headwater.caller DEFAULT current_user)
RETURNS TABLE (partition int, "position" bigint, pending_gaps bigint[], owner_node text, owner_incarnation uuid, term bigint,
               lease_left interval, report jsonb, lag_events bigint, resize_to int, barrier bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns   headwater_private.namespaces := headwater_private.open_namespace(group_status.namespace, caller, 'consumer');
    head bigint := CASE WHEN ns.sequence IS NOT NULL THEN headwater_private.newest_sequence(ns)
                        ELSE headwater_private.counted(ns.namespace_id) END;
BEGIN
    RETURN QUERY
    SELECT s.partition, s.position, headwater_private.ledger_cover(s.namespace_id, s.subscriber_id, s.partition, s.pending_gaps), s.owner_node, s.owner_incarnation, s.term,
           CASE WHEN s.owner_incarnation IS NOT NULL AND s.lease_until > clock_timestamp() THEN s.lease_until - clock_timestamp() END, s.report,
           CASE WHEN ahead.recorded_at IS NULL THEN 0 ELSE greatest(head - s.position, 1) END, s.resize_to, s.barrier
      FROM headwater_private.subscribers s
      LEFT JOIN LATERAL (SELECT headwater_private.next_recorded_at(ns.namespace_id, s.position) AS recorded_at) ahead ON s.position < head
     WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = group_status.subscriber_id
     ORDER BY s.partition;
    IF NOT FOUND THEN
        PERFORM headwater_private.fail('WH012', format('subscriber %L does not exist', left(group_status.subscriber_id, 80)),
            jsonb_build_object('subscriber_id', left(group_status.subscriber_id, 255)),
            'see which there are: SELECT * FROM headwater.subscriber_status(''namespace'')');
    END IF;
END
$$;
