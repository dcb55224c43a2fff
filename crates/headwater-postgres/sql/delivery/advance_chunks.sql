-- headwater.advance_chunks(namespace_id, subscriber_id, term, to_position, last_event_id, ledger,
-- settled, settled_sum, late, late_sum, partition, history, from_position, from_size, to_size,
-- chunk_keys, chunk_lengths, chunk_ranges, removed_keys, once)
-- Moves a checkpoint as advance does, when chunks of a long ledger change. `ledger` is the end of
-- the ledger. $16 to $18 are the chunks that are new or have changed, in the form that
-- headwater.ledger_chunks returns; $19 are the chunks that are gone; $14 and $15 are how many
-- sequences the whole ledger had and has. The checkpoint moves from where its writer knows it to be
-- ($13, $14), or not at all. Settling in order moves the position, and settling late makes the
-- ledger smaller, so a position and a size name one state of an owner's term. If the same move
-- comes a second time, it counts nothing again; with `once`, as advance_in needs it, it is refused.
-- Returns whether the checkpoint moved.
-- Raises: WH001, WH002, WH015, WH016, WH050. Locks: the rows that it writes. Writes: the
-- subscriber, ledger_chunks.
CREATE OR REPLACE FUNCTION headwater.advance_chunks(
    namespace_id int, subscriber_id text, term bigint, to_position bigint, last_event_id uuid, ledger bigint[],
    settled bigint, settled_sum text, late bigint, late_sum text, partition int, history uuid,
    from_position bigint, from_size bigint, to_size bigint, chunk_keys bigint[], chunk_lengths int[], chunk_ranges bigint[], removed_keys bigint[],
    once boolean, caller headwater.caller DEFAULT current_user
) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    sub  headwater_private.subscribers;
    size bigint;
BEGIN
    PERFORM headwater.require_history($12);
    PERFORM headwater_private.authorize($1, caller, 'consumer');
    PERFORM headwater_private.check_advance($1, $4, $6, $7, $8::numeric, $9, $10::numeric);
    PERFORM headwater_private.check_sequences($1, $18, true);
    IF (cardinality($16) = cardinality($17) AND (SELECT coalesce(sum(l), 0) FROM unnest($17) l) = cardinality($18)
        AND NOT EXISTS (SELECT FROM unnest($17) l WHERE l < 2 OR l % 2 = 1 OR l IS NULL)
        AND $19 IS NOT NULL AND $4 >= 0 AND $15 >= 0 AND $14 >= 0 AND $13 >= 0) IS NOT TRUE THEN
        PERFORM headwater_private.fail('WH002', format('invalid chunks at position %s', $4),
            jsonb_build_object('what', 'chunk_lengths', 'value', left($17::text, 80)), 'give each chunk a key and a length, and their numbers in order');
    END IF;
    SELECT s.* INTO sub FROM headwater_private.subscribers s
     WHERE s.namespace_id = $1 AND s.subscriber_id = $2 AND s.partition = $11
       AND ($3::bigint IS NULL OR s.term = $3) AND (s.barrier IS NULL OR $4 <= s.barrier)
       FOR UPDATE;
    IF NOT FOUND OR $4 < $13 THEN
        RETURN false;
    END IF;
    size := headwater_private.ledger_size($1, $2, $11, sub.pending_gaps);
    IF sub.position = $4 AND size = $15 AND NOT coalesce($20, true) THEN
        RETURN true;
    END IF;
    IF sub.position <> $13 OR size <> $14 OR $4 = $13 AND $15 > $14 THEN
        RETURN false;
    END IF;
    DELETE FROM headwater_private.ledger_chunks c
     WHERE c.namespace_id = $1 AND c.subscriber_id = $2 AND c.partition = $11 AND c.first_sequence = ANY ($19);
    INSERT INTO headwater_private.ledger_chunks (namespace_id, subscriber_id, partition, first_sequence, size, ranges)
    SELECT $1, $2, $11, k.key, headwater_private.ledger_size($1, $2, -2, k.ranges), k.ranges
      FROM (SELECT l.key, $18[l.ends - l.length + 1 : l.ends] AS ranges
              FROM (SELECT u.key, u.length, (sum(u.length) OVER (ORDER BY u.place))::int AS ends
                      FROM unnest($16, $17) WITH ORDINALITY AS u(key, length, place)) l) k
        ON CONFLICT (namespace_id, subscriber_id, partition, first_sequence) DO UPDATE SET size = excluded.size, ranges = excluded.ranges;
    -- The writer has another ledger in mind than the stored one. Loading the subscriber again shows
    -- it.
    size := headwater_private.ledger_size($1, $2, $11, $6);
    IF size <> $15 THEN
        PERFORM headwater_private.fail('WH002', format('invalid ledger: it has %s sequences, not %s', size, $15),
            jsonb_build_object('what', 'to_size', 'value', $15), 'load the subscriber, and begin with what it says');
    END IF;
    UPDATE headwater_private.subscribers s
       SET position = $4, last_event_id = coalesce($5, s.last_event_id), pending_gaps = $6,
           settled_events = s.settled_events + $7, settled_sum = s.settled_sum + $8::text::numeric,
           late_events = s.late_events + $9, late_sum = s.late_sum + $10::text::numeric,
           lease_until = CASE WHEN $3 IS NULL THEN s.lease_until ELSE greatest(s.lease_until, clock_timestamp() + s.lease) END,
           updated_at = clock_timestamp()
     WHERE s.namespace_id = $1 AND s.subscriber_id = $2 AND s.partition = $11;
    RETURN true;
END
$$;
