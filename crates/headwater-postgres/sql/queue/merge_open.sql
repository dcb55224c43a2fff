-- headwater_private.merge_open(open)
-- Returns open ranges in order. Ranges of the same type that touch become one range.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.merge_open(open headwater_private.open_range[])
RETURNS headwater_private.open_range[] LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(array_agg(ROW(m.first_sequence, m.last_sequence, m.event_type)::headwater_private.open_range
                              ORDER BY m.first_sequence, m.event_type), '{}')
      FROM (SELECT min(i.first_sequence) AS first_sequence, max(i.last_sequence) AS last_sequence, i.event_type
              FROM (SELECT s.*, count(*) FILTER (WHERE s.starts) OVER (PARTITION BY s.event_type ORDER BY s.first_sequence) AS island
                      FROM (SELECT o.*, coalesce(o.first_sequence > max(o.last_sequence) OVER (PARTITION BY o.event_type
                                        ORDER BY o.first_sequence ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) + 1, true) AS starts
                              FROM unnest(merge_open.open) o) s) i
             GROUP BY i.event_type, i.island) m
$$;
