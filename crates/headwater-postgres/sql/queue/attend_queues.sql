-- headwater.attend_queues(namespace_id, node, incarnation, subscriber_ids, rates, lease_ms)
-- Records for operators that an instance works on these queues, and how many events per second it
-- handles of each. The instance counts as a worker until the lease is over. The function writes if
-- less than two thirds of the lease are left, or if the rate has changed by more than a fifth. When
-- it writes, it also deletes workers whose lease has been over for an hour. A rate is 0 to 1e9, and
-- is cut to that: monitors add up the rates. Returns which of the queues are paused.
-- Raises: WH001, WH002, WH015. Locks: only the rows that it writes. Writes: queue_workers.
CREATE OR REPLACE FUNCTION headwater.attend_queues(
    namespace_id int, node text, incarnation uuid, subscriber_ids text[], rates double precision[], lease_ms bigint,
    caller headwater.caller DEFAULT current_user
) RETURNS SETOF text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    at   timestamptz := clock_timestamp();
    over timestamptz;
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'consumer');
    IF coalesce(attend_queues.lease_ms NOT BETWEEN 1 AND 86400000, true) THEN
        PERFORM headwater_private.fail('WH002', format('invalid lease_ms %s', coalesce(attend_queues.lease_ms::text, 'NULL')),
            jsonb_build_object('what', 'lease_ms', 'value', attend_queues.lease_ms), 'a lease is 1 ms to 1 day');
    END IF;
    PERFORM headwater_private.check_name('node', attend_queues.node, 255);
    IF NOT (pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean) THEN
        over := at + make_interval(secs => attend_queues.lease_ms / 1000.0);
        INSERT INTO headwater_private.queue_workers AS w (namespace_id, subscriber_id, incarnation, node, seen_until, rate)
        SELECT s.namespace_id, s.subscriber_id, attend_queues.incarnation, attend_queues.node, over, a.rate
          FROM (SELECT i.subscriber_id, max(least(greatest(coalesce(nullif(i.rate, 'NaN'), 0), 0), 1e9)) AS rate
                  FROM unnest(attend_queues.subscriber_ids, attend_queues.rates) AS i(subscriber_id, rate) GROUP BY i.subscriber_id) a
          JOIN headwater_private.subscribers s ON s.namespace_id = $1 AND s.subscriber_id = a.subscriber_id AND s.partition = 0
         WHERE s.mode = 'shared'
           AND NOT EXISTS (SELECT FROM headwater_private.queue_workers w
                            WHERE w.namespace_id = s.namespace_id AND w.subscriber_id = s.subscriber_id AND w.incarnation = attend_queues.incarnation
                              AND w.seen_until >= at + (over - at) * 2 / 3 AND abs(w.rate - a.rate) <= greatest(w.rate, a.rate) / 5)
        ON CONFLICT (namespace_id, subscriber_id, incarnation) DO UPDATE
           SET seen_until = excluded.seen_until, rate = excluded.rate, node = excluded.node;
        IF FOUND THEN
            DELETE FROM headwater_private.queue_workers w
             WHERE w.namespace_id = $1 AND w.subscriber_id = ANY (attend_queues.subscriber_ids) AND w.seen_until < at - interval '1 hour';
        END IF;
    END IF;
    RETURN QUERY
    SELECT s.subscriber_id FROM headwater_private.subscribers s
     WHERE s.namespace_id = $1 AND s.subscriber_id = ANY (attend_queues.subscriber_ids) AND s.partition = 0 AND s.paused;
END
$$;
