-- headwater_private.copy_events(source, target, namespace_id, after_sequence, up_to_sequence,
-- from_at, again)
-- Copies events of a namespace from one table to another: the events after a sequence, up to
-- another (NULL: all), recorded at or after `from_at`. `again`: the target may have some of them,
-- from a move that was begun before. They are brought up to date, because an event that nobody can
-- read may have been repaired in the meantime. Returns how many were added.
-- Raises, locks: nothing. Writes: the target.
CREATE OR REPLACE FUNCTION headwater_private.copy_events(
    source text, target text, namespace_id int, after_sequence bigint DEFAULT 0, up_to_sequence bigint DEFAULT NULL,
    from_at timestamptz DEFAULT '-infinity', again boolean DEFAULT false
) RETURNS bigint LANGUAGE plpgsql
-- Both sides are index ranges, whatever the statistics say about a month that has just begun.
-- Looping over one side for each event of the other would be quadratic.
SET enable_seqscan = off SET enable_nestloop = off SET jit = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- Columns by name: older tables may have their columns in another order.
    names constant text[] := ARRAY(SELECT quote_ident(a.attname) FROM pg_catalog.pg_attribute a
                                    WHERE a.attrelid = 'headwater_private.events'::regclass AND a.attnum > 0 AND NOT a.attisdropped
                                    ORDER BY a.attnum);
    columns constant text := array_to_string(names, ', ');
    wanted  constant text := 's.' || array_to_string(names, ', s.');
    present constant text := 't.' || array_to_string(names, ', t.');
    added bigint;
BEGIN
    IF again THEN
        EXECUTE format(
            'UPDATE headwater_private.%1$I t SET (%3$s) = ROW(%4$s)
               FROM headwater_private.%2$I s
              WHERE s.namespace_id = $1 AND s.global_sequence > $2 AND s.global_sequence <= $3 AND s.recorded_at >= $4
                AND t.namespace_id = $1 AND t.global_sequence > $2 AND t.global_sequence <= $3
                AND t.global_sequence = s.global_sequence AND t.recorded_at = s.recorded_at
                AND (%5$s) IS DISTINCT FROM (%4$s)', target, source, columns, wanted, present)
          USING copy_events.namespace_id, after_sequence, coalesce(up_to_sequence, 9223372036854775807), from_at;
    END IF;
    EXECUTE format(
        'INSERT INTO headwater_private.%1$I (%3$s)
         SELECT %4$s FROM headwater_private.%2$I s
          WHERE s.namespace_id = $1 AND s.global_sequence > $2 AND s.global_sequence <= $3 AND s.recorded_at >= $4'
        || CASE WHEN again THEN
               ' AND NOT EXISTS (SELECT FROM headwater_private.%1$I t
                                  WHERE t.namespace_id = $1 AND t.global_sequence > $2 AND t.global_sequence <= $3
                                    AND t.global_sequence = s.global_sequence AND t.recorded_at = s.recorded_at)' ELSE '' END,
        target, source, columns, wanted)
      USING copy_events.namespace_id, after_sequence, coalesce(up_to_sequence, 9223372036854775807), from_at;
    GET DIAGNOSTICS added = ROW_COUNT;
    RETURN added;
END
$$;
