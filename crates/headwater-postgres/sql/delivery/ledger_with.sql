-- headwater_private.ledger_with(ledger, sequence)
-- Returns a ledger of gaps (first, last, first, last, …) with one more sequence in it: in order,
-- and no two ranges touch.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.ledger_with(ledger bigint[], sequence bigint)
RETURNS bigint[] LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    result bigint[] := '{}';
    size   int := 0;
    gap    record;
BEGIN
    FOR gap IN
        SELECT r.first, r.last
          FROM (SELECT ledger[i] AS first, ledger[i + 1] AS last FROM generate_series(1, cardinality(ledger), 2) AS i
                UNION ALL SELECT sequence, sequence) r
         ORDER BY r.first
    LOOP
        IF size > 0 AND gap.first - 1 <= result[size] THEN
            result[size] := greatest(result[size], gap.last);
        ELSE
            result := result || ARRAY[gap.first, gap.last];
            size := size + 2;
        END IF;
    END LOOP;
    RETURN result;
END
$$;
