-- headwater.forget_applied(namespace_id, owner)
-- Deletes the notes of events that have changed states, once all checkpoints of the subscriber have
-- passed them and no ledger holds them.
-- Raises: WH001, WH015. Locks, writes: rows of applied_events.
CREATE OR REPLACE FUNCTION headwater.forget_applied(namespace_id int, owner text, caller headwater.caller DEFAULT current_user)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'consumer');
    DELETE FROM headwater_private.applied_events a
     WHERE a.namespace_id = $1 AND a.owner = $2
       AND a.global_sequence <= (SELECT min(least(s.position, (headwater_private.ledger_cover(s.namespace_id, s.subscriber_id, s.partition, s.pending_gaps))[1] - 1))
                                   FROM headwater_private.subscribers s
                                  WHERE s.namespace_id = $1 AND s.subscriber_id = $2);
END
$$;
