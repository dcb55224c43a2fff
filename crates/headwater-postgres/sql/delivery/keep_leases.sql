-- headwater.keep_leases(namespace, node, incarnation, lease_ms, subscriber_ids, partitions, terms,
-- shares, reports, locked, use_locks)
-- Renews the leases that an instance has, and takes those that it may take. The row decides, by
-- this server's clock. The session lock only tells sooner that an owner's session is gone. A
-- request without a term asks to own the partition. A request with a term asks to continue in it.
--   still owned     The lease is renewed when less than two thirds of it are left. The report is
--                   written when it has changed. Otherwise nothing is written.
--   lost            If the term is over, the result has no term, and its lock is released. The next
--                   call may take the lease.
--   may be taken    If it has no owner, or the lease is over, or this instance owned it (and the
--                   answer was lost), or the row says that the owner's session holds the lock, and
--                   this session got the lock. But never more of a subscriber's partitions than the
--                   instance's share (NULL: all), and none while the group waits for all its
--                   partitions to be released.
-- PostgreSQL counts how often a session takes a lock. So `locked` says which locks this session
-- holds already, and holds_lock which it holds now. If the call fails, that is unknown: close the
-- session. If somebody else has locked a row (an owner that commits), this does not wait for it:
-- the result is what the caller had.
-- Raises: WH001, WH002. Locks: rows that it changes, never waiting; advisory locks of the session.
-- Writes: subscribers, where something changed.
CREATE OR REPLACE FUNCTION headwater.keep_leases(
    namespace text, node text, incarnation uuid, lease_ms bigint,
    subscriber_ids text[], partitions int[], terms bigint[], shares int[], reports jsonb[], locked boolean[], use_locks boolean,
    caller headwater.caller DEFAULT current_user
) RETURNS TABLE (subscriber_id text, partition int, term bigint, paused boolean, redrives boolean, holds_lock boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns       headwater_private.namespaces := headwater_private.open_namespace(keep_leases.namespace, caller, 'consumer');
    length   interval := make_interval(secs => lease_ms / 1000.0);
    at       timestamptz;
    ask      record;
    key      record;
    sub      headwater_private.subscribers;
    known    boolean;
    may_take boolean;
    takeable boolean;
BEGIN
    IF coalesce(lease_ms NOT BETWEEN 1 AND 86400000, true) THEN
        PERFORM headwater_private.fail('WH002', format('invalid lease_ms %s', coalesce(lease_ms::text, 'NULL')),
            jsonb_build_object('what', 'lease_ms', 'value', lease_ms), 'a lease is 1 ms to 1 day');
    END IF;
    -- In the order of the requests. Rows are never waited for, so no order is needed, and members
    -- that ask in different orders rarely meet.
    FOR ask IN SELECT a.id, a.partition, a.term, a.share, a.report, coalesce(a.locked, false) AS locked
                 FROM unnest(keep_leases.subscriber_ids, keep_leases.partitions, keep_leases.terms, keep_leases.shares,
                             keep_leases.reports, keep_leases.locked) AS a(id, partition, term, share, report, locked)
    LOOP
        at := clock_timestamp();
        key := headwater_private.subscriber_lock(keep_leases.namespace, ask.id, ask.partition);
        keep_leases.subscriber_id := ask.id;
        keep_leases.partition := ask.partition;
        keep_leases.term := NULL;
        keep_leases.redrives := false;
        keep_leases.holds_lock := ask.locked;
        -- Read without a lock first: a row lock is a write, and usually there is nothing to do.
        SELECT s.* INTO sub FROM headwater_private.subscribers s
         WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = ask.id AND s.partition = ask.partition;
        known := FOUND;
        keep_leases.paused := known AND sub.paused;

        IF known AND sub.term = ask.term AND sub.owner_incarnation = keep_leases.incarnation THEN
            keep_leases.term := ask.term;
            IF use_locks AND NOT holds_lock THEN
                keep_leases.holds_lock := pg_try_advisory_lock(key.high, key.low);
            END IF;
            -- The row was read before the letters. So a change in between is seen next time.
            keep_leases.redrives := sub.letters_epoch <> sub.letters_checked
                AND EXISTS (SELECT FROM headwater_private.redrivable_letters(ns.namespace_id, ask.id, 1, ask.partition, sub.partitions));
            IF sub.lease_until < at + length * 2 / 3 OR sub.report IS DISTINCT FROM ask.report
               OR sub.locked <> keep_leases.holds_lock
               OR (sub.letters_epoch <> sub.letters_checked AND NOT keep_leases.redrives) THEN
                PERFORM FROM headwater_private.subscribers s
                  WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = ask.id AND s.partition = ask.partition
                    AND s.term = ask.term AND s.owner_incarnation = keep_leases.incarnation
                    FOR NO KEY UPDATE SKIP LOCKED;
                IF FOUND THEN
                    UPDATE headwater_private.subscribers s
                       SET lease_until = at + length, lease = length, report = ask.report, locked = keep_leases.holds_lock,
                           letters_checked = CASE WHEN keep_leases.redrives THEN s.letters_checked ELSE sub.letters_epoch END
                     WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = ask.id AND s.partition = ask.partition;
                END IF;
            END IF;
        ELSE
            may_take := known AND ask.term IS NULL AND (sub.resize_to IS NULL OR sub.barrier IS NOT NULL)
                AND (ask.share IS NULL OR ask.share > (
                     SELECT count(*) FROM headwater_private.subscribers o
                      WHERE o.namespace_id = ns.namespace_id AND o.subscriber_id = ask.id AND o.partition <> ask.partition
                        AND o.owner_incarnation = keep_leases.incarnation AND o.lease_until > at));
            takeable := may_take
                AND (sub.owner_incarnation IS NULL OR sub.owner_incarnation = keep_leases.incarnation OR sub.lease_until <= at);
            IF may_take AND NOT takeable AND use_locks AND sub.locked AND NOT holds_lock THEN
                keep_leases.holds_lock := pg_try_advisory_lock(key.high, key.low);
                takeable := keep_leases.holds_lock;
            END IF;
            IF takeable THEN
                -- Check again, now that nobody else can change the row.
                PERFORM FROM headwater_private.subscribers s
                  WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = ask.id AND s.partition = ask.partition
                    AND (s.owner_incarnation IS NULL OR s.owner_incarnation = keep_leases.incarnation OR s.lease_until <= at
                         OR (s.locked AND keep_leases.holds_lock))
                    AND (s.resize_to IS NULL OR s.barrier IS NOT NULL)
                    FOR NO KEY UPDATE SKIP LOCKED;
                takeable := FOUND;
            END IF;
            IF takeable THEN
                IF use_locks AND NOT holds_lock THEN
                    keep_leases.holds_lock := pg_try_advisory_lock(key.high, key.low);
                END IF;
                UPDATE headwater_private.subscribers s
                   SET term = nextval('headwater_private.terms'), owner_node = keep_leases.node, owner_incarnation = keep_leases.incarnation,
                       lease_until = at + length, lease = length, locked = keep_leases.holds_lock, report = ask.report
                 WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = ask.id AND s.partition = ask.partition
                RETURNING s.* INTO sub;
                keep_leases.term := sub.term;
                keep_leases.paused := sub.paused;
                keep_leases.redrives := EXISTS (SELECT FROM headwater_private.redrivable_letters(ns.namespace_id, ask.id, 1, ask.partition, sub.partitions));
            ELSIF keep_leases.holds_lock THEN
                PERFORM pg_advisory_unlock(key.high, key.low);
                keep_leases.holds_lock := false;
            END IF;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
