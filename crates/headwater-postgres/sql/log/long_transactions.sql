-- headwater.long_transactions(namespace_id, after_sequence, up_to_sequence, newest, span,
-- max_transactions, from_at, until_at)
-- Returns the transactions of a part of the log that may have events before it, as this snapshot
-- shows them: the transactions whose id is not above `newest`, the highest id before the part. (Ids
-- are handed out in order, so all others begin here.) It also returns the transactions whose events
-- here are at least `span` apart. No index tells a transaction's events, because every append would
-- pay for it. A reader that needs to know where transactions end goes over the log once, part by
-- part.
-- The last row has no id. Its first_sequence holds the highest id of the part, as a number to
-- compare: pass it as the next `newest`. The result has at most max_transactions rows and this last
-- one. If there are more than max_transactions, some are missing.
-- $7 and $8 are as $8 and $9 in headwater.log_page.
-- Raises: WH001, WH015. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.long_transactions(
    namespace_id int, after_sequence bigint, up_to_sequence bigint, newest bigint, span bigint, max_transactions bigint, from_at timestamptz,
    until_at timestamptz, caller headwater.caller DEFAULT current_user
) RETURNS TABLE (transaction_id bigint, first_sequence bigint, last_sequence bigint) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    -- Ids of imported events have this bit (import_events), although their transactions came before
    -- all transactions of this server. Flipping the bit puts ids into the order of time.
    imported constant bigint := 4611686018427387904;
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'consumer');
    RETURN QUERY
    WITH parts AS MATERIALIZED (
        SELECT p.transaction_id, min(p.first_sequence) AS first, max(p.last_sequence) AS last
          FROM headwater_private.by_month(
                   NULL::headwater_private.span,
                   'SELECT NULL::text, e.transaction_id, min(e.global_sequence), max(e.global_sequence) FROM %s e
                     WHERE %s AND e.namespace_id = $1 AND e.global_sequence > $2 AND e.global_sequence <= $3
                       AND e.recorded_at >= $5 AND e.recorded_at < $6
                     GROUP BY e.transaction_id', $1, $2, $3, NULL, $7, $8) p
         GROUP BY p.transaction_id)
    (SELECT p.transaction_id, p.first, p.last FROM parts p
      WHERE p.transaction_id # imported <= $4 OR p.last - p.first >= $5 ORDER BY p.first LIMIT $6)
    UNION ALL
    SELECT NULL, max(p.transaction_id # imported), NULL FROM parts p;
END
$$;
