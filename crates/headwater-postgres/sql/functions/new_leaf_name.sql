-- headwater_private.new_leaf_name(base)
-- A name for a table into which a past month is written anew: that of the month with an end that no table has, and no append uses. So whoever follows the
-- WAL knows that what is in it is not new.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.new_leaf_name(base text)
RETURNS text LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    number int := 1;
BEGIN
    WHILE to_regclass(format('headwater_private.%I', format('%s_r%s', base, number))) IS NOT NULL LOOP
        number := number + 1;
    END LOOP;
    RETURN format('%s_r%s', base, number);
END
$$;
