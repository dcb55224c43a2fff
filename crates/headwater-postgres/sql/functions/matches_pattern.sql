-- headwater_private.matches_pattern(event_type, patterns)
-- Whether an event type is one of the patterns: * in them stands for any characters. The same rule stands in headwater-core's patterns.rs.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.matches_pattern(event_type text, patterns text[])
RETURNS boolean LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT event_type = ANY (patterns)
        OR EXISTS (SELECT FROM unnest(patterns) AS p(pattern)
                    WHERE p.pattern LIKE '%*%'
                      AND event_type LIKE replace(replace(replace(replace(p.pattern, E'\\', E'\\\\'), '%', E'\\%'), '_', E'\\_'), '*', '%')));
END
$$;
