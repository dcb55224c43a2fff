-- headwater_private.new_claim(namespace_id, subscriber_id, worker, max_attempts, visible_at)
-- Returns a claim for events that were never delivered. It does not have the events yet.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.new_claim(
    namespace_id int, subscriber_id text, worker text, max_attempts int, visible_at timestamptz, OUT one headwater_private.claims
) LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    one.namespace_id := new_claim.namespace_id;
    one.subscriber_id := new_claim.subscriber_id;
    one.worker := coalesce(new_claim.worker, '');
    one.max_attempts := new_claim.max_attempts;
    one.visible_at := new_claim.visible_at;
    one.attempts := 1;
    one.uncounted := 0;
    one.failures := '[]';
    one.of_letter := false;
    one.suspect := false;
    one.one_table := false;
END
$$;
