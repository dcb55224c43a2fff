-- headwater.advance(namespace_id, subscriber_id, term, to_position, last_event_id, ledger, settled,
-- settled_sum, late, late_sum, partition, history)
-- Moves a checkpoint, only in its owner's term and history, and never back. Where the position
-- stays, the ledger only shrinks. If the same move comes a second time because its answer was lost,
-- it counts nothing again: settling in order moves the position, and settling late shrinks the
-- ledger, so no other move ends at the same place with the same ledger. An owner that makes
-- progress is alive, so this renews its lease: it locks the owner's row, and keep_leases skips a
-- locked row.
-- Returns whether the checkpoint moved.
-- Raises: WH001, WH002, WH015, WH016, WH050. Locks, writes: the subscriber's row.
CREATE OR REPLACE FUNCTION headwater.advance(
    namespace_id int, subscriber_id text, term bigint, to_position bigint, last_event_id uuid, ledger bigint[],
    settled bigint, settled_sum text, late bigint, late_sum text, partition int, history uuid,
    caller headwater.caller DEFAULT current_user
) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    checked boolean := false;
BEGIN
    LOOP
        UPDATE headwater_private.subscribers s
           SET position = $4, last_event_id = coalesce($5, s.last_event_id), pending_gaps = $6,
               settled_events = s.settled_events + $7 * (s.position <> $4 OR s.pending_gaps <> $6)::int,
               settled_sum = s.settled_sum + $8::text::numeric * (s.position <> $4 OR s.pending_gaps <> $6)::int,
               late_events = s.late_events + $9 * (s.position <> $4 OR s.pending_gaps <> $6)::int,
               late_sum = s.late_sum + $10::text::numeric * (s.position <> $4 OR s.pending_gaps <> $6)::int,
               lease_until = CASE WHEN $3 IS NULL THEN s.lease_until ELSE greatest(s.lease_until, clock_timestamp() + s.lease) END,
               updated_at = clock_timestamp()
         WHERE s.namespace_id = $1 AND s.subscriber_id = $2 AND s.partition = $11
           AND ($3::bigint IS NULL OR s.term = $3) AND (s.barrier IS NULL OR $4 <= s.barrier)
           AND CASE WHEN s.position < $4 OR s.pending_gaps = $6 THEN s.position <= $4
                    ELSE s.position = $4 AND headwater_private.ledger_holds(s.pending_gaps, $6) END
           -- This condition recognizes the usual moves. All others are checked below, and then
           -- made.
           AND (checked
                OR $6 = '{}' AND $7 BETWEEN 0 AND 1000000000000000 AND $9 = 0 AND $4 >= 0 AND $8::text::numeric BETWEEN 0 AND 1e40
                   AND $10::text::numeric = 0 AND $12 = (SELECT p.history FROM headwater_private.present_history p)
                   AND $4 <= (SELECT pg_sequence_last_value(n.sequence) FROM headwater_private.namespaces n
                               WHERE n.namespace_id = $1
                                 AND (pg_has_role(caller, current_user, 'USAGE')
                                      OR EXISTS (SELECT FROM headwater_private.grants g
                                                  WHERE g.namespace_id = n.namespace_id AND g.kind IN ('consumer', 'admin')
                                                    AND pg_has_role(caller, g.role::oid, 'USAGE')))));
        IF FOUND OR checked THEN
            RETURN FOUND;
        END IF;
        PERFORM headwater.require_history($12);
        PERFORM headwater_private.authorize($1, caller, 'consumer');
        PERFORM headwater_private.check_advance($1, $4, $6, $7, $8::numeric, $9, $10::numeric);
        checked := true;
    END LOOP;
END
$$;
