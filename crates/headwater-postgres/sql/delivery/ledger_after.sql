-- headwater_private.ledger_after(ledger, closed_to, present)
-- Returns a ledger of gaps (first, last, first, last, …) after everything up to closed_to became
-- known. What lies there and is not in `present` will never come, and is left out. The ranges are
-- in order, and no two touch.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.ledger_after(ledger bigint[], closed_to bigint, present bigint[])
RETURNS bigint[] LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    result bigint[] := '{}';
    size   int := 0;
    kept   record;
BEGIN
    FOR kept IN
        SELECT r.first, r.last
          FROM (SELECT greatest(ledger[i], closed_to + 1) AS first, ledger[i + 1] AS last FROM generate_series(1, cardinality(ledger), 2) AS i
                 UNION ALL
                SELECT p.sequence, p.sequence FROM unnest(present) AS p(sequence) WHERE p.sequence <= closed_to) r
         WHERE r.first <= r.last
         ORDER BY r.first
    LOOP
        IF size > 0 AND kept.first - 1 <= result[size] THEN
            result[size] := greatest(result[size], kept.last);
        ELSE
            result := result || ARRAY[kept.first, kept.last];
            size := size + 2;
        END IF;
    END LOOP;
    RETURN result;
END
$$;
