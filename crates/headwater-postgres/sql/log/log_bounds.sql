-- headwater_private.log_bounds(namespace_id, after_sequence, up_to_sequence, max_events)
-- Returns when the events that a read of the log may need were recorded: from `from_at` on, before
-- `until_at`. max_events (NULL: all) means the first events after after_sequence, whatever they
-- are. A read that leaves some out passes NULL. src/log/month_bounds.rs decides the same. The
-- result is one row, as a table, so that it becomes part of the calling query and is planned with
-- it.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.log_bounds(
    namespace_id int, after_sequence bigint, up_to_sequence bigint, max_events int
) RETURNS TABLE (from_at timestamptz, until_at timestamptz) LANGUAGE plpgsql STABLE ROWS 1
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT greatest(n.kept_from, (SELECT m.ends_at FROM headwater_private.months m
                                   WHERE m.namespace_id = n.namespace_id AND m.high_sequence <= log_bounds.after_sequence
                                   ORDER BY m.starts_at DESC LIMIT 1)),
           coalesce((SELECT min(a.ends_at)
                       FROM (SELECT m.ends_at, m.complete_to,
                                    sum(m.page_events) OVER w - first_value(m.page_events) OVER w AS ahead
                               FROM headwater_private.months m
                              WHERE m.namespace_id = n.namespace_id AND m.complete_to >= log_bounds.after_sequence AND m.trimmed_at IS NULL
                             WINDOW w AS (ORDER BY m.starts_at)) a
                      WHERE a.complete_to >= log_bounds.up_to_sequence OR a.ahead >= log_bounds.max_events), 'infinity')
      FROM headwater_private.namespaces n WHERE n.namespace_id = log_bounds.namespace_id;
END
$$;
