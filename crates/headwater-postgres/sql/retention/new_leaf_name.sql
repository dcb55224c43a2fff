-- headwater_private.new_leaf_name(base)
-- Returns a name for a table into which a past month is rewritten: the name of the month with a
-- suffix that no table ever had. So a statement that was meant for an older table never meets a
-- newer one, and a reader of the WAL knows that the table's contents are not new.
-- Raises, locks: nothing. Writes: the sequence of these suffixes.
CREATE OR REPLACE FUNCTION headwater_private.new_leaf_name(base text)
RETURNS text LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name text;
BEGIN
    LOOP
        name := format('%s_r%s', base, nextval('headwater_private.rewritten_months'));
        -- Databases from before this sequence existed may have such names already.
        EXIT WHEN to_regclass(format('headwater_private.%I', name)) IS NULL
              AND NOT EXISTS (SELECT FROM headwater_private.months m WHERE m.leaf = name);
    END LOOP;
    RETURN name;
END
$$;
