-- headwater_private.ledger_without(ledger, sequences)
-- Returns a ledger of gaps (first, last, first, last, …) without these sequences.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.ledger_without(ledger bigint[], sequences bigint[])
RETURNS bigint[] LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF ledger = '{}' OR sequences = '{}' THEN
        RETURN ledger;
    END IF;
    RETURN ARRAY(
        SELECT v.sequence
          FROM (SELECT p.before + 1 AS first, p.point - 1 AS last
                  FROM (SELECT lag(x.point, 1, g.first - 1) OVER (PARTITION BY g.first ORDER BY x.point) AS before, x.point
                          FROM (SELECT ledger[i] AS first, ledger[i + 1] AS last FROM generate_series(1, cardinality(ledger), 2) AS i) g
                         CROSS JOIN LATERAL (SELECT s.point FROM unnest(sequences) AS s(point) WHERE s.point BETWEEN g.first AND g.last
                                              UNION ALL SELECT g.last + 1) x) p) r
         CROSS JOIN LATERAL (VALUES (r.first), (r.last)) AS v(sequence)
         WHERE r.first <= r.last
         ORDER BY v.sequence);
END
$$;
