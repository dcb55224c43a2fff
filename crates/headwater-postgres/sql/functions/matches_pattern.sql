-- headwater.matches_pattern(event_type, patterns)
-- Whether an event type is one of the patterns: * in them stands for any characters. The same rule stands in headwater-core's patterns.rs.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.matches_pattern(event_type text, patterns text[])
RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT event_type = ANY (patterns)
        OR EXISTS (SELECT FROM unnest(patterns) AS p(pattern)
                    WHERE p.pattern LIKE '%*%'
                      AND event_type LIKE replace(replace(replace(replace(p.pattern, '\', '\\'), '%', '\%'), '_', '\_'), '*', '%'))
$$;
