-- headwater.poison(namespace_id, with_redelivered, max_rows)
-- Lists poison, rows of the log that could not be turned into events, in log order.
-- Raises: WH001, WH015. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.poison(
    namespace_id int, with_redelivered boolean, max_rows bigint, caller headwater.caller DEFAULT current_user
) RETURNS TABLE (global_sequence bigint, redelivered boolean, error text, found_at timestamptz,
               redelivered_at timestamptz) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'consumer');
    RETURN QUERY
    SELECT p.global_sequence, p.redelivered, p.error, p.found_at, p.redelivered_at
      FROM headwater_private.poison_events p
     WHERE p.namespace_id = $1 AND ($2 OR NOT p.redelivered)
     ORDER BY p.global_sequence
     LIMIT $3;
END
$$;
