-- headwater_private.ledger_holds(ledger, part)
-- Returns whether every range of `part` lies in a range of `ledger`. Both are first, last, first,
-- last, …, in order, and no two ranges touch.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.ledger_holds(ledger bigint[], part bigint[])
RETURNS boolean LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    at     int := 1;
    beyond int := cardinality(ledger) / 2 * 2 + 1;
    middle int;
BEGIN
    -- Find the first range that ends at or after the start of `part`. This is a binary search,
    -- because ledgers may be long.
    WHILE at < beyond LOOP
        middle := at + (beyond - at) / 4 * 2;
        IF ledger[middle + 1] < part[1] THEN
            at := middle + 2;
        ELSE
            beyond := middle;
        END IF;
    END LOOP;
    FOR i IN 1 .. cardinality(part) BY 2 LOOP
        WHILE ledger[at + 1] < part[i] LOOP
            at := at + 2;
        END LOOP;
        IF coalesce(ledger[at] > part[i] OR ledger[at + 1] < part[i + 1], true) THEN
            RETURN false;
        END IF;
    END LOOP;
    RETURN true;
END
$$;
