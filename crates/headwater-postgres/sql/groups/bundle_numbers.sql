-- headwater_private.bundle_numbers(scope, failing, sequences, keys, transaction_ids, actors)
-- Decides which events of a page share a transaction. Returns the number of each event's bundle, in
-- the order of their first events.
--   batch          All events share one bundle. But an event that failed before has its own.
--   event          Each event has its own bundle.
--   key            Events of one key share a bundle.
--   key_and_actor  Events of one key and one actor share a bundle. If other actors' events of the
--                  same key come in between, the actor's events form several bundles, in order. But
--                  what one transaction appended stays together, with what came in between.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.bundle_numbers(
    scope text, failing bigint, sequences bigint[], keys text[], transaction_ids bigint[], actors text[]
) RETURNS int[] LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF scope = 'batch' THEN
        RETURN ARRAY(SELECT CASE WHEN failing IS NULL OR s.sequence < failing THEN 1
                                 ELSE 1 + (failing > sequences[1])::int + (s.sequence > failing)::int END
                       FROM unnest(sequences) WITH ORDINALITY AS s(sequence, place) ORDER BY s.place);
    ELSIF scope = 'event' THEN
        RETURN ARRAY(SELECT g FROM generate_series(1, cardinality(sequences)) g ORDER BY g);
    END IF;
    RETURN ARRAY(
        SELECT dense_rank() OVER (ORDER BY f.first)::int
          FROM (SELECT p.sequence, min(p.sequence) OVER (PARTITION BY p.key, p.part) AS first
                  FROM (SELECT c.sequence, c.key,
                               count(*) FILTER (WHERE c.cut) OVER (PARTITION BY c.key ORDER BY c.sequence) AS part
                          FROM (SELECT t.sequence, t.key,
                                       scope = 'key_and_actor' AND t.actor_id IS DISTINCT FROM lag(t.actor_id) OVER (PARTITION BY t.key ORDER BY t.sequence)
                                       AND t.sequence > max(t.goes_on) OVER (PARTITION BY t.key ORDER BY t.sequence
                                                                              ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS cut
                                  FROM (SELECT e.sequence, e.key, e.actor_id,
                                               max(e.sequence) OVER (PARTITION BY e.key, e.transaction_id, e.actor_id) AS goes_on
                                          FROM unnest(sequences, keys, transaction_ids, actors) AS e(sequence, key, transaction_id, actor_id)
                                         WHERE e.sequence IS NOT NULL) t) c) p) f
         ORDER BY f.sequence);
END
$$;
