-- headwater.log_page(namespace_id, after_sequence, up_to_sequence, max_events, event_types, stream,
-- stream_prefix, from_at, until_at)
-- Returns one page of what this snapshot shows of the log, in order. It is no proof that nothing is
-- missing: headwater.read_log gives that. NULL: no limit, no filter. In a type, * stands for any
-- characters. from_at and until_at come from headwater_private.log_bounds, or are NULL. No other
-- months are opened.
-- Raises: WH015 if the caller may not read it. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.log_page(
    namespace_id int, after_sequence bigint, up_to_sequence bigint, max_events int,
    event_types text[], stream text, stream_prefix text, from_at timestamptz DEFAULT NULL, until_at timestamptz DEFAULT NULL,
    caller headwater.caller DEFAULT current_user
) RETURNS SETOF headwater_private.events LANGUAGE plpgsql STABLE SECURITY DEFINER SET enable_seqscan = off SET jit = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    query text :=
        'SELECT e.* FROM %s e
          WHERE %s AND e.namespace_id = $1 AND e.global_sequence > $2 AND e.global_sequence <= $3
            AND e.recorded_at >= $5 AND e.recorded_at < $6
            AND ($7 IS NULL OR e.event_type = ANY ($7)) AND ($8 IS NULL OR e.stream_id = $8)
            AND ($9 IS NULL OR starts_with(e.stream_id, $9))
          ORDER BY e.global_sequence LIMIT $4';
    one   record;
    asked record;
    types text[];
BEGIN
    IF NOT headwater_private.authorize(log_page.namespace_id, caller, 'consumer') THEN
        RETURN;
    END IF;
    IF log_page.event_types IS NOT NULL THEN
        asked := headwater_private.page_types(log_page.namespace_id, log_page.event_types);
        types := asked.types;
        IF asked.likes THEN
            query := replace(query, 'e.event_type = ANY', 'e.event_type LIKE ANY');
        END IF;
        IF asked.indexed THEN
            RETURN QUERY SELECT p.* FROM headwater_private.typed_page(log_page.namespace_id, least(log_page.after_sequence, 9223372036854775806) + 1,
                log_page.up_to_sequence, log_page.max_events, asked.types, log_page.stream, log_page.stream_prefix, false) p;
            RETURN;
        END IF;
    END IF;
    one := headwater_private.only_table(log_page.namespace_id, least(log_page.after_sequence, 9223372036854775806) + 1, log_page.up_to_sequence, log_page.from_at, log_page.until_at);
    IF one.name IS NOT NULL THEN
        RETURN QUERY EXECUTE format(query, one.name, one.condition)
            USING log_page.namespace_id, log_page.after_sequence, coalesce(log_page.up_to_sequence, 9223372036854775807), log_page.max_events,
                  coalesce(log_page.from_at, '-infinity'), coalesce(log_page.until_at, 'infinity'), types, log_page.stream,
                  log_page.stream_prefix;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT e.* FROM headwater_private.by_month(
               NULL::headwater_private.events, query, log_page.namespace_id, log_page.after_sequence, log_page.up_to_sequence, log_page.max_events,
               log_page.from_at, log_page.until_at, types, log_page.stream, log_page.stream_prefix) e
     ORDER BY e.global_sequence LIMIT log_page.max_events;
END
$$;
