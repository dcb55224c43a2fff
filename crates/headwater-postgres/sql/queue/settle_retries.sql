-- headwater_private.settle_retries(namespace_id, subscriber_id, takes, due_from, moment, max_scan,
-- letters, more)
-- Turns events that are to be delivered again, from due_from to `moment`, into dead letters if
-- their type is not among `takes`, the types that the queue takes. A letter that is being redriven
-- is dead again. Looks at max_scan retries at most (NULL: all). Returns how many events became dead
-- letters, and whether there may be more among these retries. The caller holds the queue's lock.
-- Raises: nothing. Locks: letters. Writes: retries, dead letters.
CREATE OR REPLACE FUNCTION headwater_private.settle_retries(
    namespace_id int, subscriber_id text, takes text[], due_from timestamptz, moment timestamptz, max_scan int, OUT letters bigint, OUT more boolean
) LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    most  constant int := 1000;
    tried int := 0;
    retry headwater_private.retries;
    one   constant headwater_private.claims := headwater_private.new_claim(settle_retries.namespace_id, settle_retries.subscriber_id, NULL, 1, moment);
    claim headwater_private.claims;
    gone  text[];
    step  record;
BEGIN
    letters := 0;
    FOR retry IN SELECT r.* FROM (SELECT r.* FROM headwater_private.retries r
                                   WHERE r.subscriber_id || '/' || r.namespace_id::text
                                         = settle_retries.subscriber_id || '/' || settle_retries.namespace_id::text
                                     AND r.suspect IN (false, true) AND r.due_at >= settle_retries.due_from AND r.due_at <= settle_retries.moment
                                   LIMIT settle_retries.max_scan) r
                  WHERE NOT r.event_types <@ settle_retries.takes
                    AND EXISTS (SELECT FROM unnest(r.event_types) AS t(event_type)
                                 WHERE NOT headwater_private.matches_pattern(t.event_type, settle_retries.takes))
                  LIMIT most
    LOOP
        tried := tried + 1;
        gone := ARRAY(SELECT t.event_type FROM unnest(retry.event_types) AS t(event_type)
                       WHERE NOT headwater_private.matches_pattern(t.event_type, settle_retries.takes));
        step := headwater_private.take_retry(retry, one, gone, NULL, cardinality(retry.sequences));
        CONTINUE WHEN NOT step.taken;
        claim := step.one;
        claim.suspect := false;
        letters := letters + cardinality(claim.sequences);
        PERFORM headwater_private.fail_claimed(claim, claim.sequences, moment, 'the queue does not take events of this type any more');
    END LOOP;
    more := tried = most;
END
$$;
