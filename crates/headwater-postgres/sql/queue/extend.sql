-- headwater.extend(namespace, subscriber_id, claim_id, visibility)
-- Public: in docs/sql.md.
-- Keeps a claim for `visibility` from now on, and never makes it shorter. Returns when the claim
-- expires. A call without a claim (NULL) does nothing.
-- Raises: WH001, WH002, WH014 if the claim is lost. Locks, writes: the claim.
CREATE OR REPLACE FUNCTION headwater.extend(namespace text, subscriber_id text, claim_id uuid, visibility interval, caller headwater.caller DEFAULT current_user)
RETURNS timestamptz LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns          headwater_private.namespaces := headwater_private.open_namespace(extend.namespace, caller, 'consumer');
    new_visible timestamptz;
BEGIN
    PERFORM headwater_private.check_visibility(extend.visibility);
    IF extend.claim_id IS NULL THEN
        RETURN NULL;
    END IF;
    PERFORM headwater_private.held_claim(ns.namespace_id, extend.subscriber_id, extend.claim_id, NULL);
    -- visible_at must never decrease: the search for expired claims begins at the time up to which
    -- the last search came, so it would not find a claim that fell below that time.
    UPDATE headwater_private.claims c SET visible_at = greatest(c.visible_at, clock_timestamp() + extend.visibility)
     WHERE c.claim_id = extend.claim_id
    RETURNING c.visible_at INTO new_visible;
    RETURN new_visible;
END
$$;
