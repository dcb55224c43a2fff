-- headwater_private.cron_value(value, low, names)
-- Returns the number that a value of a cron field stands for: a number, or a name, which counts
-- from low. NULL: it is neither.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.cron_value(value text, low int, names text[])
RETURNS int LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN cron_value.value ~ '^[0-9]{1,4}$' THEN cron_value.value::int
                ELSE array_position(cron_value.names, upper(cron_value.value)) - 1 + cron_value.low END
$$;
