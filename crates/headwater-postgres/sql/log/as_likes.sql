-- headwater_private.as_likes(patterns)
-- Converts patterns of event types, in which * stands for any characters, to LIKE patterns.
-- matches_pattern has the same rule.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.as_likes(patterns text[])
RETURNS text[] LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT array_agg(replace(replace(replace(replace(p.pattern, E'\\', E'\\\\'), '%', E'\\%'), '_', E'\\_'), '*', '%'))
      FROM unnest(as_likes.patterns) AS p(pattern)
$$;
