-- headwater.read_dead_letters(namespace, only_subscriber, states, after_sequence, max_letters)
-- Public: in docs/sql.md.
-- Lists dead letters, by subscriber and place in the log: the whole event, the last error, and each
-- attempt. states: dead, parked, redriving, redriven, discarded (NULL: the open ones).
-- Raises: WH001, WH002 (max_letters). Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.read_dead_letters(
    namespace       text,
    only_subscriber text DEFAULT NULL,
    states          text[] DEFAULT NULL,
    after_sequence  bigint DEFAULT NULL,
    max_letters     int DEFAULT 1000,
    caller headwater.caller DEFAULT current_user
) RETURNS TABLE (subscriber_id text, global_sequence bigint, event_id uuid, event_type text, state text, error text, attempts jsonb, event jsonb,
                 reason text, created_at timestamptz, updated_at timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns headwater_private.namespaces := headwater_private.open_namespace(read_dead_letters.namespace, caller, 'consumer');
BEGIN
    PERFORM headwater_private.check_max_events(read_dead_letters.max_letters);
    RETURN QUERY
    SELECT m.subscriber_id, m.global_sequence, m.event_id, m.event_type, m.state, m.error, m.attempts, m.event, m.reason, m.created_at, m.updated_at
      FROM headwater_private.matching_letters(ns.namespace_id, read_dead_letters.only_subscriber, read_dead_letters.states, NULL, NULL, NULL, NULL,
                                      read_dead_letters.after_sequence) m
     ORDER BY m.subscriber_id, m.global_sequence
     LIMIT read_dead_letters.max_letters;
END
$$;
