-- headwater.read_claims(namespace, subscriber_id, claim_ids)
-- Public: in docs/sql.md.
-- Returns the events of claims that are not done, in the form in which headwater.claim returns
-- them. It is for claims that were made without their events. Call it after the commit of the
-- claims: then nobody waits while you read. A claim that is lost or done has no rows.
-- Raises: WH001, WH015. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.read_claims(namespace text, subscriber_id text, claim_ids uuid[], caller headwater.caller DEFAULT current_user)
RETURNS TABLE (claim_id uuid, redelivery_count int, global_sequence bigint, stream_version bigint, transaction_id bigint,
               created_at timestamptz, recorded_at timestamptz, namespace_id int, schema_version int, event_id uuid, correlation_id uuid,
               causation_id uuid, event_type text, stream_id text, key text, actor_id text, headers jsonb, data jsonb)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    wanted   uuid;
    one      record;
    read_any boolean := false;
BEGIN
    FOREACH wanted IN ARRAY coalesce(read_claims.claim_ids, '{}') LOOP
        SELECT c.claim_id, c.attempts - 1 + c.uncounted AS redelivery_count, c.namespace_id, c.first_sequence, c.last_sequence, c.sequences,
               c.event_types, c.one_table AND c.sequences IS NULL AS one_table
          INTO one
          FROM headwater_private.claims c
          JOIN headwater_private.namespaces n ON n.namespace_id = c.namespace_id
         WHERE c.claim_id = wanted AND NOT c.done
           -- IS NOT DISTINCT FROM uses no index: the index on claim_id is the right one, as in
           -- held_claim.
           AND c.subscriber_id IS NOT DISTINCT FROM read_claims.subscriber_id
           AND n.namespace IS NOT DISTINCT FROM read_claims.namespace
           AND (pg_has_role(read_claims.caller, current_user, 'USAGE')
                OR headwater_private.is_granted(n.namespace_id, read_claims.caller, 'consumer'));
        CONTINUE WHEN NOT FOUND;
        read_any := true;
        IF one.one_table THEN
            RETURN QUERY SELECT one.claim_id, one.redelivery_count, e.* FROM headwater_private.tail_events() e
                          WHERE e.namespace_id = one.namespace_id AND e.global_sequence BETWEEN one.first_sequence AND one.last_sequence
                            AND (one.event_types IS NULL OR e.event_type = ANY (one.event_types))
                          ORDER BY e.global_sequence;
            CONTINUE WHEN FOUND;
        END IF;
        RETURN QUERY SELECT one.claim_id, one.redelivery_count, e.*
                       FROM headwater_private.claimed_events(one.namespace_id, one.first_sequence, one.last_sequence, one.event_types, one.sequences) e;
    END LOOP;
    IF NOT read_any THEN
        -- Either nothing is left of the claims, or something is wrong: then this raises the error.
        PERFORM headwater_private.open_namespace(read_claims.namespace, caller, 'consumer');
    END IF;
END
$$;
