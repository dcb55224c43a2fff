-- headwater.settle_untaken(namespace, only_subscriber, max_scan)
-- Public: in docs/sql.md.
-- Settles events that the namespace's queues, or one of them, do not take (see
-- headwater.set_event_types) and that no claim has passed yet. So these events do not keep a month
-- from being dropped. It stops before the next event that the queue takes, which is left to claims.
-- An event that a worker had before, and that the queue no longer takes, becomes a dead letter. A
-- letter that is being redriven is dead again. If another session has locked a queue, that queue is
-- left out, because claims settle everything that they pass. headwater.maintain does the same.
-- Claims wait for the end of the caller's transaction. So a call looks through about max_scan
-- events, in all queues together (NULL: all), beginning with the queue that is furthest behind.
-- Returns one row per queue that does not take all types: how many sequences it passed, how many
-- events became dead letters, and whether another call may do more.
-- Raises: WH001, WH002, WH006. Locks: the queues. Writes: claims, retries, dead letters.
CREATE OR REPLACE FUNCTION headwater.settle_untaken(
    namespace text, only_subscriber text DEFAULT NULL, max_scan bigint DEFAULT 100000, caller headwater.caller DEFAULT current_user
) RETURNS TABLE (subscriber_id text, settled bigint, letters bigint, more boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns headwater_private.namespaces := headwater_private.open_namespace(settle_untaken.namespace, caller, 'consumer');
BEGIN
    PERFORM headwater_private.check_claim(NULL, NULL, 1, settle_untaken.max_scan);
    RETURN QUERY SELECT s.* FROM headwater_private.settle_queues(ns, settle_untaken.only_subscriber, settle_untaken.max_scan) s;
END
$$;
