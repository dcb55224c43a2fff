-- headwater.cdc_inbox_page(namespace_id, after_id, max_rows)
-- Reads what came from a slot after a place, in commit order. Also returns the term of the slot's
-- owner, and whether it has caught up.
-- Raises: WH001, WH015. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.cdc_inbox_page(
    namespace_id int, after_id bigint, max_rows bigint, caller headwater.caller DEFAULT current_user
) RETURNS TABLE (term bigint, caught_up boolean, inbox_id bigint, event text) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'consumer');
    RETURN QUERY
    SELECT s.term, s.caught_up, p.inbox_id, p.event
      FROM (VALUES (1)) one
      LEFT JOIN headwater_private.cdc_slots s ON s.namespace_id = $1
      LEFT JOIN LATERAL (SELECT i.inbox_id, i.event::text AS event FROM headwater_private.cdc_inbox i
                          WHERE i.namespace_id = $1 AND i.inbox_id > $2
                          ORDER BY i.inbox_id
                          LIMIT $3) p ON true
     ORDER BY p.inbox_id;
END
$$;
