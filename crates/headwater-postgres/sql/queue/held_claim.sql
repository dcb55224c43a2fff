-- headwater_private.held_claim(namespace_id, subscriber_id, claim_id, sequences)
-- Returns a claim that is still held, and locks it. All of `sequences` must lie in its range.
-- Raises: WH002, WH014. Locks: the claim. Writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.held_claim(namespace_id int, subscriber_id text, claim_id uuid, sequences bigint[])
RETURNS headwater_private.claims LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    claim   headwater_private.claims;
    outside bigint;
BEGIN
    SELECT c.* INTO claim FROM headwater_private.claims c
     WHERE c.claim_id = held_claim.claim_id AND NOT c.done
       FOR UPDATE;
    -- These conditions are not in the statement: the planner could choose an index on these
    -- columns, but the index on claim_id is the right one.
    IF NOT FOUND OR claim.namespace_id <> held_claim.namespace_id OR claim.subscriber_id IS DISTINCT FROM held_claim.subscriber_id THEN
        PERFORM headwater_private.claim_lost(held_claim.subscriber_id, ARRAY[held_claim.claim_id]);
    END IF;
    SELECT s.sequence INTO outside FROM unnest(held_claim.sequences) AS s(sequence)
     WHERE (s.sequence BETWEEN claim.first_sequence AND claim.last_sequence) IS NOT TRUE LIMIT 1;
    IF FOUND THEN
        PERFORM headwater_private.fail('WH002', format('event %s is not of claim %s', coalesce(outside::text, 'NULL'), held_claim.claim_id),
            jsonb_build_object('what', 'sequences', 'value', outside), 'name events that were delivered with this claim_id');
    END IF;
    RETURN claim;
END
$$;
