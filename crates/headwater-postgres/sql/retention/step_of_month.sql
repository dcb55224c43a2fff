-- headwater_private.step_of_month(leaf)
-- Decides what to do with a shared table of a past month, of which some namespaces were trimmed, or
-- moved away and left their events behind: 'drop' if nobody keeps anything in it; 'rewrite' if a
-- fifth of it or more is unused, or some of it has been for a week; NULL: nothing yet, because a
-- rewrite serves many namespaces at once.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.step_of_month(leaf text)
RETURNS text LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kept    bigint;
    gone    bigint;
    since   timestamptz;
BEGIN
    SELECT coalesce(sum(coalesce(m.events, m.last_sequence - m.first_sequence + 1)) FILTER (WHERE m.trimmed_at IS NULL), 0),
           coalesce(sum(coalesce(m.events, m.last_sequence - m.first_sequence + 1)) FILTER (WHERE m.trimmed_at IS NOT NULL), 0),
           min(m.trimmed_at) FILTER (WHERE m.last_sequence IS NOT NULL)
      INTO kept, gone, since
      FROM headwater_private.months m WHERE m.leaf = step_of_month.leaf;
    SELECT gone + coalesce(sum(b.events), 0), least(since, min(b.left_at)) INTO gone, since
      FROM headwater_private.left_behind b WHERE b.leaf = step_of_month.leaf;
    RETURN CASE WHEN kept = 0 THEN 'drop'
                WHEN gone > 0 AND (4 * gone >= kept OR since < clock_timestamp() - interval '168 hours') THEN 'rewrite' END;
END
$$;
