-- headwater.advance_in(namespace_id, subscriber_id, term, to_position, last_event_id, ledger,
-- settled, settled_sum, late, late_sum, from_position, from_ledger, partition, history)
-- Moves a checkpoint in a transaction with effects, only in its owner's term and history. It moves
-- from where its writer knows it to be ($11, $12), or not at all. The same move a second time must
-- fail: the commit of the first may have been slow, and both would have their effects. The rest is
-- as in advance.sql.
-- Returns whether the checkpoint moved.
-- Raises: WH001, WH002, WH015, WH016, WH050. Locks, writes: the subscriber's row.
CREATE OR REPLACE FUNCTION headwater.advance_in(
    namespace_id int, subscriber_id text, term bigint, to_position bigint, last_event_id uuid, ledger bigint[],
    settled bigint, settled_sum text, late bigint, late_sum text, from_position bigint, from_ledger bigint[],
    partition int, history uuid, caller headwater.caller DEFAULT current_user
) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    checked boolean := false;
BEGIN
    LOOP
        UPDATE headwater_private.subscribers s
           SET position = $4, last_event_id = coalesce($5, s.last_event_id), pending_gaps = $6,
               settled_events = s.settled_events + $7, settled_sum = s.settled_sum + $8::text::numeric,
               late_events = s.late_events + $9, late_sum = s.late_sum + $10::text::numeric,
               lease_until = CASE WHEN $3 IS NULL THEN s.lease_until ELSE greatest(s.lease_until, clock_timestamp() + s.lease) END,
               updated_at = clock_timestamp()
         WHERE s.namespace_id = $1 AND s.subscriber_id = $2 AND s.partition = $13
           AND ($3::bigint IS NULL OR s.term = $3) AND s.position = $11 AND s.pending_gaps = $12 AND s.position <= $4
           AND (s.barrier IS NULL OR $4 <= s.barrier)
           -- This condition recognizes the usual moves. All others are checked below, and then
           -- made.
           AND (checked
                OR $6 = '{}' AND $7 BETWEEN 0 AND 1000000000000000 AND $9 = 0 AND $4 >= 0 AND $8::text::numeric BETWEEN 0 AND 1e40
                   AND $10::text::numeric = 0 AND $14 = (SELECT p.history FROM headwater_private.present_history p)
                   AND $4 <= (SELECT pg_sequence_last_value(n.sequence) FROM headwater_private.namespaces n
                               WHERE n.namespace_id = $1
                                 AND (pg_has_role(caller, current_user, 'USAGE')
                                      OR EXISTS (SELECT FROM headwater_private.grants g
                                                  WHERE g.namespace_id = n.namespace_id AND g.kind IN ('consumer', 'admin')
                                                    AND pg_has_role(caller, g.role::oid, 'USAGE')))));
        IF FOUND OR checked THEN
            RETURN FOUND;
        END IF;
        PERFORM headwater.require_history($14);
        PERFORM headwater_private.authorize($1, caller, 'consumer');
        PERFORM headwater_private.check_advance($1, $4, $6, $7, $8::numeric, $9, $10::numeric);
        checked := true;
    END LOOP;
END
$$;
