-- headwater.attend_alone(namespace, subscriber_ids, reports, lease_ms)
-- A node that runs these subscribers without owning them, because it is the only one that does,
-- marks them as active for lease_ms (0: no longer). A subscriber that is owned stays unchanged. A
-- row is written only when less than two thirds of that time are left, or when the report says for
-- the first time, or differently, whether the subscriber is transactional.
-- Raises: WH001, WH002. Locks: rows that it changes, never waiting. Writes: subscribers.
CREATE OR REPLACE FUNCTION headwater.attend_alone(
    namespace text, subscriber_ids text[], reports jsonb[], lease_ms bigint, caller headwater.caller DEFAULT current_user
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns     headwater_private.namespaces := headwater_private.open_namespace(attend_alone.namespace, caller, 'consumer');
    length interval := make_interval(secs => lease_ms / 1000.0);
    at     timestamptz := clock_timestamp();
BEGIN
    IF coalesce(lease_ms NOT BETWEEN 0 AND 86400000, true) THEN
        PERFORM headwater_private.fail('WH002', format('invalid lease_ms %s', coalesce(lease_ms::text, 'NULL')),
            jsonb_build_object('what', 'lease_ms', 'value', lease_ms), 'a lease is 0 ms to 1 day');
    END IF;
    UPDATE headwater_private.subscribers s SET lease_until = at + length, report = there.report
      FROM (SELECT l.subscriber_id, a.report
              FROM unnest(attend_alone.subscriber_ids, attend_alone.reports) AS a(id, report)
              JOIN headwater_private.subscribers l ON l.namespace_id = ns.namespace_id AND l.subscriber_id = a.id AND l.partition = 0
             WHERE l.owner_incarnation IS NULL
               AND (lease_ms = 0 OR l.lease_until IS NULL OR l.lease_until < at + length * 2 / 3
                    OR l.report -> 'transactional' IS DISTINCT FROM a.report -> 'transactional')
               FOR NO KEY UPDATE OF l SKIP LOCKED) there
     WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = there.subscriber_id AND s.partition = 0;
END
$$;
