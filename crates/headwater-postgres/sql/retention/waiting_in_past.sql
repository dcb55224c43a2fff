-- headwater_private.waiting_in_past()
-- Lists when the oldest event that a subscriber has not passed was recorded, for subscribers that
-- are not beyond the sealed months of their namespace, or whose namespace has its own tables. NULL,
-- or no row: there is no such event. It is for reports on all namespaces: all questions about a
-- month's table are asked at once, in a subtransaction that is rolled back, which releases its
-- locks.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.waiting_in_past()
RETURNS TABLE (namespace_id int, subscriber_id text, recorded_at timestamptz) LANGUAGE plpgsql STABLE
SET jit = off SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    part record;
BEGIN
    IF NOT EXISTS (SELECT FROM headwater_private.namespaces n WHERE n.tail_after > 0 OR n.storage = 'own') THEN
        RETURN;
    END IF;
    -- No later month has an older event.
    FOR part IN SELECT p.name, min(p.tail_from) AS tail_from, array_agg(p.namespace_id) AS namespaces, array_agg(p.subscriber_id) AS subscribers,
                       array_agg(p.place) AS places
                  FROM (SELECT s.namespace_id, s.subscriber_id, s.place, coalesce(m.leaf, headwater_private.log_table(n)) AS name,
                               CASE WHEN m.leaf IS NULL THEN n.tail_from ELSE '-infinity' END AS tail_from
                          FROM headwater_private.namespaces n
                          JOIN headwater_private.subscriber_places s ON s.namespace_id = n.namespace_id
                          LEFT JOIN LATERAL (SELECT m.leaf FROM headwater_private.months m
                                              WHERE m.namespace_id = s.namespace_id AND m.last_sequence > s.place AND m.trimmed_at IS NULL
                                              ORDER BY m.starts_at LIMIT 1) m ON s.place < n.tail_after
                         WHERE n.storage = 'own' OR s.place < n.tail_after) p
                 GROUP BY p.name LOOP
        BEGIN
            RETURN QUERY EXECUTE format(
                'SELECT s.namespace_id, s.subscriber_id,
                        (SELECT e.recorded_at FROM headwater_private.%I e
                          WHERE e.namespace_id = s.namespace_id AND e.global_sequence > s.place AND e.recorded_at >= $4
                          ORDER BY e.global_sequence LIMIT 1)
                   FROM unnest($1, $2, $3) AS s(namespace_id, subscriber_id, place)', part.name)
                USING part.namespaces, part.subscribers, part.places, part.tail_from;
            RAISE EXCEPTION USING ERRCODE = 'WH099', MESSAGE = 'looked';
        EXCEPTION WHEN SQLSTATE 'WH099' THEN
            NULL;
        END;
    END LOOP;
END
$$;
