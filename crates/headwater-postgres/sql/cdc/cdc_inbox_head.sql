-- headwater.cdc_inbox_head(namespace_id, slot, instance)
-- Returns the end of the inbox, and the state of the slot that fills it: its owner, whether it can
-- be taken, whether it is read.
-- Raises: WH001, WH015. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.cdc_inbox_head(
    namespace_id int, slot text, instance uuid, caller headwater.caller DEFAULT current_user
) RETURNS TABLE (head bigint, term bigint, owner_node text, caught_up boolean, is_read boolean,
               is_takeable boolean) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'consumer');
    RETURN QUERY
    SELECT coalesce((SELECT max(i.inbox_id) FROM headwater_private.cdc_inbox i WHERE i.namespace_id = $1), 0) AS head,
           coalesce(s.term, 0) AS term, s.owner_node, coalesce(s.caught_up, false) AS caught_up,
           coalesce(s.reading AND r.active AND s.lease_until > clock_timestamp(), false) AS is_read,
           coalesce(s.owner_instance IS NULL OR s.owner_instance = $3 OR s.lease_until <= clock_timestamp() OR (s.reading AND NOT coalesce(r.active, false)), true)
               AS is_takeable
      FROM (VALUES (1)) one
      LEFT JOIN headwater_private.cdc_slots s ON s.namespace_id = $1
      LEFT JOIN pg_replication_slots r ON r.slot_name = $2;
END
$$;
