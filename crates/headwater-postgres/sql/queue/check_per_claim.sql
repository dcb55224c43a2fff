-- headwater_private.check_per_claim(per_claim)
-- Checks how many events one claim may hold.
-- Raises: WH002 unless per_claim is NULL, or 1 or more. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.check_per_claim(per_claim int)
RETURNS void LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF per_claim < 1 THEN
        PERFORM headwater_private.fail('WH002', format('invalid per_claim %s', per_claim),
            jsonb_build_object('what', 'per_claim', 'value', per_claim), 'per_claim is 1 or more, or NULL for one claim');
    END IF;
END
$$;
