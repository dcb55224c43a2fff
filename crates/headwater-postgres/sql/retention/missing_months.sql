-- headwater_private.missing_months(namespace_id, from_at, until_at)
-- Lists the times in a range for which a namespace has no leaf, month by month, oldest first: whole
-- months, or the missing part of one.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.missing_months(namespace_id int, from_at timestamptz, until_at timestamptz)
RETURNS TABLE (starts_at timestamptz, ends_at timestamptz) LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    -- There may be a hole behind each leaf up to the next one, and before the first.
    WITH holes AS (
        SELECT greatest(h.starts_at, missing_months.from_at) AS starts_at, least(h.ends_at, missing_months.until_at) AS ends_at
          FROM (SELECT l.ends_at AS starts_at, coalesce(lead(l.starts_at) OVER (ORDER BY l.starts_at), 'infinity') AS ends_at
                  FROM (SELECT l.starts_at, l.ends_at FROM headwater_private.leaves(missing_months.namespace_id) l
                         UNION ALL SELECT '-infinity', '-infinity') l) h
    )
    SELECT greatest(m.month AT TIME ZONE 'UTC', h.starts_at), least((m.month + interval '1 month') AT TIME ZONE 'UTC', h.ends_at)
      FROM holes h
     CROSS JOIN LATERAL generate_series(date_trunc('month', h.starts_at AT TIME ZONE 'UTC'), (h.ends_at AT TIME ZONE 'UTC') - interval '1 microsecond',
                                        interval '1 month') AS m(month)
     WHERE h.starts_at < h.ends_at AND isfinite(missing_months.from_at) AND isfinite(missing_months.until_at)
     ORDER BY 1
$$;
