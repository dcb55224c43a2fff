-- headwater.long_transactions(namespace_id, after_sequence, span, max_transactions, from_at, until_at)
-- Transactions whose events after a cursor are far apart, in order of the first, as this snapshot shows them. All after the cursor is scanned, once: no index
-- tells a transaction's events, since every append would pay for it. $5 and $6 as in headwater.log_page.
-- Raises: WH001, WH015. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.long_transactions(
    namespace_id int, after_sequence bigint, span bigint, max_transactions bigint, from_at timestamptz,
    until_at timestamptz, caller headwater.caller DEFAULT current_user
) RETURNS TABLE (transaction_id bigint, first_sequence bigint, last_sequence bigint) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'consumer');
    RETURN QUERY
    SELECT e.transaction_id, min(e.global_sequence), max(e.global_sequence)
      FROM headwater_private.events e
     WHERE e.namespace_id = $1 AND e.global_sequence > $2
       AND e.recorded_at >= coalesce($5::timestamptz, '-infinity') AND e.recorded_at < coalesce($6::timestamptz, 'infinity')
     GROUP BY e.transaction_id
    HAVING max(e.global_sequence) - min(e.global_sequence) >= $3::bigint
     ORDER BY 2
     LIMIT $4;
END
$$;
