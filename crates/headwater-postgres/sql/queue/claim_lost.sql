-- headwater_private.claim_lost(subscriber_id, claim_ids)
-- Refuses a call, because the caller no longer holds these claims.
-- Raises: WH014, always. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.claim_lost(subscriber_id text, claim_ids uuid[])
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM headwater_private.fail('WH014', format('claim %s of subscriber %L is not yours any more', claim_ids[1], left(subscriber_id, 80)),
        jsonb_build_object('subscriber_id', left(subscriber_id, 255), 'claim_ids', claim_ids),
        'it was acked or handed back before, or it expired and its events are delivered again: drop them, or claim longer or extend in time');
END
$$;
