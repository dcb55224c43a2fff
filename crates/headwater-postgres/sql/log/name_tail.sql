-- headwater_private.name_tail()
-- Makes headwater_private.tail_events name the table of the current month, or `events` if no table
-- holds exactly this month. An old name costs only time, and never an event. The caller holds the
-- latch `months`, so that no two sessions replace the function at once.
-- Raises, locks: nothing. Writes: the function.
CREATE OR REPLACE FUNCTION headwater_private.name_tail()
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- The name that create_leaf gives it.
    leaf constant text := to_char(clock_timestamp() AT TIME ZONE 'UTC', '"events_"YYYYMM');
    body text;
BEGIN
    -- Columns by name: the creator of a leaf may have put them in another order.
    SELECT format('SELECT %s FROM headwater_private.%I', string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum),
                  CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_inherits i
                                     WHERE i.inhparent = a.attrelid AND i.inhrelid = to_regclass(format('headwater_private.%I', leaf)))
                       THEN leaf ELSE 'events' END)
      INTO body
      FROM pg_catalog.pg_attribute a
     WHERE a.attrelid = 'headwater_private.events'::regclass AND a.attnum > 0 AND NOT a.attisdropped
     GROUP BY a.attrelid;
    IF body IS DISTINCT FROM (SELECT p.prosrc FROM pg_catalog.pg_proc p WHERE p.oid = 'headwater_private.tail_events()'::regprocedure) THEN
        EXECUTE format('CREATE OR REPLACE FUNCTION headwater_private.tail_events()
                        RETURNS SETOF headwater_private.events LANGUAGE sql STABLE AS %L', body);
    END IF;
END
$$;
