-- headwater_private.matches_pattern(event_type, patterns)
-- Returns whether an event type matches one of the patterns, in which * stands for any characters.
-- patterns.rs in headwater-core has the same rule.
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
