-- headwater.count_gaps(namespace_id)
-- Counts the recorded permanent gaps.
-- Raises: WH001, WH015. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.count_gaps(
    namespace_id int, caller headwater.caller DEFAULT current_user
) RETURNS bigint LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'consumer');
    RETURN (
    SELECT count(*) FROM headwater_private.permanent_gaps WHERE namespace_id = $1);
END
$$;
