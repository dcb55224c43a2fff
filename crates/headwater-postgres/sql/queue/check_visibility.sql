-- headwater_private.check_visibility(visibility)
-- Checks how long a claim is to last.
-- Raises: WH002 unless visibility is more than 0 and at most 30 days. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.check_visibility(visibility interval)
RETURNS void LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM headwater_private.check_interval('visibility', visibility, '1 microsecond', '30 days', 'visibility is more than 0 and at most 30 days');
END
$$;
