-- headwater.pass_types(namespace_id, after_sequence, up_to_sequence, event_types)
-- Returns how far a subscriber that asks for some types (in which * stands for any characters) may
-- move at once, if the namespace has a type index: there is no event of these types after
-- after_sequence up to `reach`. Checkpoints count what they pass: `events` events with the sum
-- `sequence_sum` of their sequences. The log is known to be settled up to up_to_sequence. No row
-- means: read on, because an event of these types is near, or there is no index.
-- Raises: WH015 if the caller may not read it. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.pass_types(
    namespace_id int, after_sequence bigint, up_to_sequence bigint, event_types text[], caller headwater.caller DEFAULT current_user
) RETURNS TABLE (reach bigint, events bigint, sequence_sum bigint) LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    asked record;
BEGIN
    IF NOT headwater_private.authorize(pass_types.namespace_id, caller, 'consumer') THEN
        RETURN;
    END IF;
    asked := headwater_private.page_types(pass_types.namespace_id, pass_types.event_types);
    IF asked.indexed IS NOT TRUE THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT p.reach, s.events, s.sum::bigint
      FROM headwater_private.passed_by_type(pass_types.namespace_id, pass_types.after_sequence, pass_types.up_to_sequence, asked.types) p
     CROSS JOIN LATERAL (SELECT count(*) AS events, coalesce(sum(e.sequence), 0) AS sum
                           FROM unnest(p.seen) AS e(sequence)
                          WHERE NOT EXISTS (SELECT FROM headwater_private.poison_events x
                                             WHERE x.namespace_id = pass_types.namespace_id AND x.global_sequence = e.sequence
                                               AND NOT x.redelivered)) s
     WHERE p.reach IS NOT NULL AND s.sum <= 9223372036854775807;
END
$$;
