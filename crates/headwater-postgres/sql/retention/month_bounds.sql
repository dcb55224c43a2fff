-- headwater.month_bounds(namespace_id)
-- Lists the sealed months of a namespace, oldest first, and from when on its events are kept (NULL:
-- all are kept).
-- Raises: WH001, WH015. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.month_bounds(
    namespace_id int, caller headwater.caller DEFAULT current_user
) RETURNS TABLE (kept_from timestamptz, trimmed_to bigint, ends_at timestamptz, high_sequence bigint,
               complete_to bigint, page_events int, trimmed boolean) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, NULL);
    RETURN QUERY
    SELECT nullif(n.kept_from, '-infinity'), n.trimmed_to, m.ends_at, m.high_sequence, m.complete_to, m.page_events, m.trimmed_at IS NOT NULL AS trimmed
      FROM headwater_private.namespaces n LEFT JOIN headwater_private.months m ON m.namespace_id = n.namespace_id
     WHERE n.namespace_id = $1
     ORDER BY m.starts_at;
END
$$;
