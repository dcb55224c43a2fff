-- headwater_private.cron_field(expression, field, value, low, high, names)
-- Returns the values of one field of a cron expression, sorted. `names` stand for low, low + 1 and
-- so on.
-- Raises: WH002, which names the field and what is wrong in it. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.cron_field(expression text, field text, value text, low int, high int, names text[])
RETURNS int[] LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    item    text;
    part    text[];
    first   int;
    last    int;
    step    int;
    problem text;
    found   int[] := '{}';
BEGIN
    FOREACH item IN ARRAY string_to_array(value, ',') LOOP
        problem := NULL;
        IF field = 'day of month' AND upper(item) = 'L' THEN
            found := found || 32;
            CONTINUE;
        END IF;
        IF field = 'day of week' THEN
            part := regexp_match(item, '^([0-9]|[A-Za-z]{3})(?:#([1-5])|([Ll]))$');
            first := headwater_private.cron_value(part[1], low, names) % 7;
            IF first IS NOT NULL AND left(part[1], 1) NOT IN ('8', '9') THEN
                found := found || first + CASE WHEN part[3] IS NULL THEN 10 * part[2]::int ELSE 70 END;
                CONTINUE;
            END IF;
        END IF;
        part := regexp_match(item, '^(?:[*?]|([0-9A-Za-z]+)(?:-([0-9A-Za-z]+))?)(?:/([0-9]{1,4}))?$');
        IF part IS NULL THEN
            problem := 'is no value, range (2-5), list (2,5) or step (*/5)';
        ELSE
            step := coalesce(part[3]::int, 1);
            IF part[1] IS NULL THEN
                first := low;
                last := CASE field WHEN 'day of week' THEN 6 ELSE high END;
            ELSE
                first := headwater_private.cron_value(part[1], low, names);
                last := headwater_private.cron_value(coalesce(part[2], part[1]), low, names);
                -- A range may end with Sunday: SAT-SUN.
                last := CASE WHEN field = 'day of week' AND last = 0 AND first > 0 THEN 7 ELSE last END;
            END IF;
            IF first IS NULL OR last IS NULL OR first < low OR greatest(first, last) > high THEN
                problem := format('is not %s to %s%s', low, high,
                                  CASE WHEN names IS NULL THEN '' ELSE format(' or %s to %s', names[1], names[cardinality(names)]) END);
            ELSIF first > last THEN
                problem := format('goes backwards: write %s-%s,%s-%s', part[1], high, low, part[2]);
            ELSIF step = 0 THEN
                problem := 'has a step of 0';
            ELSIF part[3] IS NOT NULL AND part[1] IS NOT NULL AND part[2] IS NULL THEN
                problem := format('has a step, but no range: write %s-%s/%s', part[1], high, part[3]);
            END IF;
        END IF;
        IF problem IS NOT NULL THEN
            PERFORM headwater_private.fail('WH002', format('invalid cron expression %L: %s %L %s', left(expression, 80), field, left(item, 40), problem),
                jsonb_build_object('what', 'cron_expression', 'value', left(expression, 80), 'field', field, 'item', left(item, 40)),
                'try it out: SELECT * FROM headwater.next_runs(''0 2 * * *'', ''Europe/Copenhagen'')');
        END IF;
        found := found || ARRAY(SELECT CASE WHEN field = 'day of week' THEN v % 7 ELSE v END FROM generate_series(first, last, step) v);
    END LOOP;
    RETURN ARRAY(SELECT DISTINCT v FROM unnest(found) v ORDER BY v);
END
$$;
