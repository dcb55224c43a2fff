-- headwater_private.check_visibility(visibility)
-- Raises: WH002 unless it is more than 0 and at most 30 days. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.check_visibility(visibility interval)
RETURNS void LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF visibility > interval '0' AND visibility <= interval '30 days' THEN
        RETURN;
    END IF;
    PERFORM headwater_private.fail('WH002', format('invalid visibility %s', coalesce(visibility::text, 'NULL')),
        jsonb_build_object('what', 'visibility', 'value', visibility), 'visibility is more than 0 and at most 30 days');
END
$$;
