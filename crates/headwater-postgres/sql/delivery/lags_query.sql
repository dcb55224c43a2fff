-- headwater_private.lags_query(subscribers, granted)
-- Returns a query, as text to EXECUTE, that tells how far the subscribers of the namespaces in
-- `granted` (NULL: all) are behind. `subscribers` is the view that names them, each with its place:
-- events up to there were handed out.
-- The query joins sets, and each lookup in the log uses an index of a table that the query names.
-- So its cost grows with the number of subscribers, not with the length of the logs, and its locks
-- grow with neither. Callers switch nested loops off: before tables are analyzed, the planner
-- expects few rows, and would read one set again for each row of another.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.lags_query(subscribers text, granted int[])
RETURNS text LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    tables  constant text[] := headwater_private.tail_tables();
    lookups text;
BEGIN
    -- The oldest month first: no later month has an older event.
    SELECT string_agg(format('(SELECT e.recorded_at FROM %s e WHERE e.namespace_id = s.namespace_id AND e.global_sequence > s.place
                                ORDER BY e.global_sequence LIMIT 1)', t.name), ', ')
      INTO lookups FROM unnest(tables) AS t(name);
    RETURN format(
        'SELECT l.*, CASE WHEN l.recorded_at IS NULL THEN 0 ELSE greatest(l.newest - l.place, 1) END AS lag_events,
                coalesce(greatest(date_part(''epoch'', clock_timestamp() - l.recorded_at), 0), 0) AS lag_seconds
           FROM (SELECT h.namespace, s.*, h.newest, coalesce(letters.open, 0) AS dead_letters,
                        CASE WHEN s.place >= h.newest THEN NULL
                             WHEN s.place < h.tail_after OR h.storage = ''own''
                             THEN coalesce(past.recorded_at, CASE h.storage WHEN ''shared'' THEN coalesce(%1$s) END)
                             ELSE coalesce(%1$s) END AS recorded_at
                   FROM (%2$s) h
                   JOIN headwater_private.%3$I s ON s.namespace_id = h.namespace_id
                   LEFT JOIN headwater_private.waiting_in_past() past ON past.namespace_id = s.namespace_id AND past.subscriber_id = s.subscriber_id
                   LEFT JOIN (SELECT d.namespace_id, d.subscriber_id, count(*) AS open FROM headwater_private.dead_letters d
                               WHERE d.state IN (''dead'', ''parked'', ''redriving'') GROUP BY d.namespace_id, d.subscriber_id) letters
                          ON letters.namespace_id = s.namespace_id AND letters.subscriber_id = s.subscriber_id
                 OFFSET 0) l',
        coalesce(lookups, 'NULL::timestamptz'), headwater_private.heads_query(lags_query.granted, tables), lags_query.subscribers);
END
$$;
