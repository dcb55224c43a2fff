-- headwater_private.check_index(index)
-- Checks the choice of an index. NULL means not given.
-- Raises: WH002. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.check_index(index text)
RETURNS void LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF index NOT IN ('none', 'types') THEN
        PERFORM headwater_private.fail('WH002', format('invalid index %L', left(index, 80)),
            jsonb_build_object('what', 'index', 'value', left(index, 80)), 'index is none or types');
    END IF;
END
$$;
