-- headwater_private.new_leaf_name(base)
-- A name for a table into which a past month is written anew: the name of the month with an end that no table ever had. So a
-- statement that was meant for an older table never meets a newer one, and whoever follows the WAL knows that what is in it is not new.
-- Raises, locks: nothing. Writes: the sequence of these ends.
CREATE OR REPLACE FUNCTION headwater_private.new_leaf_name(base text)
RETURNS text LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name text;
BEGIN
    LOOP
        name := format('%s_r%s', base, nextval('headwater_private.rewritten_months'));
        -- Databases of before there was the sequence may have some.
        EXIT WHEN to_regclass(format('headwater_private.%I', name)) IS NULL
              AND NOT EXISTS (SELECT FROM headwater_private.months m WHERE m.leaf = name);
    END LOOP;
    RETURN name;
END
$$;
