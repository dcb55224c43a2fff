-- headwater.settle_ahead_in(namespace_id, subscriber_id, partition, term, sequences, from_position,
-- from_ledger)
-- Records a bundle as settled ahead of the checkpoint, in a transaction with its effects. It does
-- so only in its owner's term, only while the checkpoint is where its writer knows it to be ($6,
-- $7), and only once: the same bundle a second time must fail, as in advance_in.sql. A bundle that
-- begins before a barrier may end behind it, because what one transaction appended is not split. An
-- owner that makes progress is alive, as in advance.sql.
-- Raises: WH001, WH002, WH015, WH016. Locks: the rows that it writes. Writes: settled_ahead, the
-- subscriber.
CREATE OR REPLACE FUNCTION headwater.settle_ahead_in(
    namespace_id int, subscriber_id text, partition int, term bigint, sequences bigint[], from_position bigint,
    from_ledger bigint[], caller headwater.caller DEFAULT current_user
) RETURNS SETOF int LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    IF NOT headwater_private.authorize($1, caller, 'consumer') THEN
        RETURN;
    END IF;
    PERFORM headwater_private.check_sequences($1, $5, false);
    RETURN QUERY
    WITH owned AS (
        UPDATE headwater_private.subscribers s
           SET lease_until = CASE WHEN $4 IS NULL THEN s.lease_until ELSE greatest(s.lease_until, clock_timestamp() + s.lease) END,
               updated_at = clock_timestamp()
         WHERE s.namespace_id = $1 AND s.subscriber_id = $2 AND s.partition = $3
           AND ($4::bigint IS NULL OR s.term = $4) AND s.position = $6 AND s.pending_gaps = $7
           AND (s.barrier IS NULL OR ($5::bigint[])[1] <= s.barrier)
        RETURNING s.namespace_id, s.subscriber_id, s.partition
    )
    INSERT INTO headwater_private.settled_ahead (namespace_id, subscriber_id, partition, first_sequence, sequences)
    SELECT o.namespace_id, o.subscriber_id, o.partition, ($5::bigint[])[1], $5::bigint[] FROM owned o
        ON CONFLICT DO NOTHING
    RETURNING 1;
END
$$;
