-- headwater_private.return_claims(namespace_id, worker)
-- Takes back the claims that a worker holds in all queues of a namespace, as if they had expired: a
-- new process has replaced the process that made them. If the old process settles one of them
-- later, it is refused, because the claim is gone. If another session is settling a claim at this
-- moment, the claim is left to that session, and expires by itself if the session fails. If the
-- lock of a queue is not free within two seconds, its claims expire by themselves too. Reads the
-- held claims of the namespace.
-- Raises: nothing. Locks: the queues, one after the other in order, and the claims. Writes: claims,
-- retries, dead letters.
CREATE OR REPLACE FUNCTION headwater_private.return_claims(namespace_id int, worker text)
RETURNS void LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET lock_timeout = '2s'
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    queue   text;
    newest  record;
    q       headwater_private.queue_state;
    moment  timestamptz;
    numbers bigint[];
    step    record;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN;
    END IF;
    FOR queue IN SELECT DISTINCT c.subscriber_id FROM headwater_private.claims c
                  WHERE c.namespace_id = return_claims.namespace_id AND c.worker = return_claims.worker AND NOT c.done
                  ORDER BY c.subscriber_id
    LOOP
        BEGIN
            PERFORM headwater_private.lock_queue(return_claims.namespace_id, queue);
            SELECT n.number, n.done, n.state INTO newest FROM headwater_private.queue_states n
             WHERE n.namespace_id = return_claims.namespace_id AND n.subscriber_id = queue;
            q := newest.state;
            -- Never before the time up to which claims have looked, even if the clock goes back.
            moment := greatest(clock_timestamp(), q.moment, q.expired_from, q.due_from);
            WITH held AS (
                SELECT c.number FROM headwater_private.claims c
                 WHERE c.namespace_id = return_claims.namespace_id AND c.subscriber_id = queue AND c.worker = return_claims.worker AND NOT c.done
                   FOR UPDATE SKIP LOCKED
            ), over AS (
                UPDATE headwater_private.claims c SET visible_at = least(c.visible_at, moment) FROM held h
                 WHERE c.namespace_id = return_claims.namespace_id AND c.subscriber_id = queue AND c.number = h.number
                RETURNING c.number
            )
            SELECT array_agg(o.number ORDER BY o.number) INTO numbers FROM over o;
            CONTINUE WHEN numbers IS NULL;
            step := headwater_private.expire_claims(return_claims.namespace_id, queue, newest.number, numbers, moment,
                                                    'worker %L was replaced by a new process before it finished', q);
            -- The next claim must look again at the claims that were skipped before, and at those
            -- that were locked here.
            q.skipped := ARRAY(SELECT DISTINCT s FROM unnest(q.skipped || (step.q).skipped) s ORDER BY s);
            q.look_at := '-infinity';
            q.moment := moment;
            PERFORM headwater_private.save_queue(return_claims.namespace_id, queue, newest.number, newest.done OR step.newest_ended, '{}', q);
        EXCEPTION WHEN lock_not_available THEN
            CONTINUE;
        END;
    END LOOP;
END
$$;
