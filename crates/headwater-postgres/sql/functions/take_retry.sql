-- headwater_private.take_retry(retry, wanted, room)
-- Takes up to `room` events of the wanted types (NULL: all) of a retry; the rest of it stays. What the log no longer has, and letters that were
-- discarded meanwhile, are dropped. The caller holds the queue's lock.
-- Raises, locks: nothing. Writes: the retry.
CREATE OR REPLACE FUNCTION headwater_private.take_retry(retry headwater_private.retries, wanted text[], room int)
RETURNS bigint[] LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    taken  bigint[];
    left_  bigint[];
    types  text[];
    bounds record;
BEGIN
    SELECT l.* INTO bounds
      FROM headwater_private.log_bounds(retry.namespace_id, retry.sequences[1] - 1, retry.sequences[cardinality(retry.sequences)], NULL) l;
    WITH present AS (
        SELECT e.global_sequence, e.event_type,
               row_number() OVER (PARTITION BY wanted IS NULL OR e.event_type = ANY (wanted) ORDER BY e.global_sequence) <= room
               AND (wanted IS NULL OR e.event_type = ANY (wanted)) AS is_taken
          FROM headwater_private.events e
         WHERE e.namespace_id = retry.namespace_id AND e.global_sequence = ANY (retry.sequences)
           AND e.recorded_at >= bounds.from_at AND e.recorded_at < bounds.until_at
           AND (NOT retry.of_letter OR EXISTS (
                SELECT FROM headwater_private.dead_letters d
                 WHERE d.namespace_id = retry.namespace_id AND d.subscriber_id = retry.subscriber_id
                   AND d.global_sequence = e.global_sequence AND d.state = 'redriving'))
    )
    SELECT coalesce(array_agg(p.global_sequence ORDER BY p.global_sequence) FILTER (WHERE p.is_taken), '{}'),
           array_agg(p.global_sequence ORDER BY p.global_sequence) FILTER (WHERE NOT p.is_taken),
           array_agg(DISTINCT p.event_type) FILTER (WHERE NOT p.is_taken)
      INTO taken, left_, types FROM present p;
    IF left_ IS NULL THEN
        DELETE FROM headwater_private.retries r
         WHERE r.namespace_id = retry.namespace_id AND r.subscriber_id = retry.subscriber_id AND r.number = retry.number;
    ELSE
        UPDATE headwater_private.retries r SET sequences = left_, event_types = types
         WHERE r.namespace_id = retry.namespace_id AND r.subscriber_id = retry.subscriber_id AND r.number = retry.number;
    END IF;
    RETURN taken;
END
$$;
