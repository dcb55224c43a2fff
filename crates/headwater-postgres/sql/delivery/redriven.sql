-- headwater.redriven(namespace_id, subscriber_id, term, global_sequence, attempt, error, node,
-- partition)
-- Records that a dead letter was delivered again, only in its owner's term. `fenced` is 1 if the
-- caller was the owner, and `tried` is 1 if the letter was still open. $5 is the attempt, if it
-- failed: then what is being redriven behind it in a parked key waits again.
-- Raises: WH001, WH002, WH015. Locks: the rows that it writes. Writes: dead letters, the subscriber.
CREATE OR REPLACE FUNCTION headwater.redriven(
    namespace_id int, subscriber_id text, term bigint, global_sequence bigint, attempt text, error text,
    node text, partition int, caller headwater.caller DEFAULT current_user
) RETURNS TABLE (fenced bigint, tried bigint) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'consumer');
    PERFORM headwater_private.check_letters(NULL, ARRAY['[' || $5 || ']']) WHERE $5 IS NOT NULL;
    RETURN QUERY
    WITH fenced AS (
        UPDATE headwater_private.subscribers s SET letters_epoch = s.letters_epoch + 1
         WHERE s.namespace_id = $1 AND s.subscriber_id = $2 AND s.partition = $8 AND ($3::bigint IS NULL OR s.term = $3)
        RETURNING s.namespace_id, s.subscriber_id, s.term
    ), tried AS (
        UPDATE headwater_private.dead_letters d
           SET state = CASE WHEN $5::text IS NULL THEN 'redriven' ELSE 'dead' END, parks_key = d.parks_key OR d.state = 'parked',
               error = coalesce($6, d.error), node = coalesce($7, d.node), term = f.term, updated_at = clock_timestamp(),
               attempts = d.attempts || CASE WHEN $5 IS NULL OR d.attempts @> jsonb_build_array($5::jsonb) THEN '[]'
                                             ELSE jsonb_build_array($5::jsonb) END
          FROM fenced f
         WHERE d.namespace_id = f.namespace_id AND d.subscriber_id = f.subscriber_id AND d.global_sequence = $4
           AND d.state IN ('dead', 'parked', 'redriving')
        RETURNING d.namespace_id, d.subscriber_id, d.order_key, d.parks_key
    ), waiting AS (
        UPDATE headwater_private.dead_letters d SET state = 'parked', updated_at = clock_timestamp()
          FROM tried t
         WHERE $5 IS NOT NULL AND t.parks_key AND d.namespace_id = t.namespace_id AND d.subscriber_id = t.subscriber_id
           AND d.order_key = t.order_key AND d.global_sequence > $4 AND d.state = 'redriving'
    )
    SELECT (SELECT count(*) FROM fenced) AS fenced, (SELECT count(*) FROM tried) AS tried;
END
$$;
