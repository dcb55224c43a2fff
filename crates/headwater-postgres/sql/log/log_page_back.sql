-- headwater.log_page_back(namespace_id, before_sequence, from_sequence, max_events, event_types,
-- stream, stream_prefix, from_at, until_at)
-- headwater.log_page backwards: from below before_sequence down to from_sequence.
-- Raises: WH015 if the caller may not read it. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.log_page_back(
    namespace_id int, before_sequence bigint, from_sequence bigint, max_events int,
    event_types text[], stream text, stream_prefix text, from_at timestamptz DEFAULT NULL, until_at timestamptz DEFAULT NULL,
    caller headwater.caller DEFAULT current_user
) RETURNS SETOF headwater_private.events LANGUAGE plpgsql STABLE SECURITY DEFINER SET enable_seqscan = off SET jit = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    query text :=
        'SELECT e.* FROM %s e
          WHERE %s AND e.namespace_id = $1 AND e.global_sequence >= $2 AND e.global_sequence < $3
            AND e.recorded_at >= $5 AND e.recorded_at < $6
            AND ($7 IS NULL OR e.event_type = ANY ($7)) AND ($8 IS NULL OR e.stream_id = $8)
            AND ($9 IS NULL OR starts_with(e.stream_id, $9))
          ORDER BY e.global_sequence DESC LIMIT $4';
    lowest CONSTANT bigint := coalesce(log_page_back.from_sequence, 0);
    one    record;
    asked  record;
    types  text[];
BEGIN
    IF NOT headwater_private.authorize(log_page_back.namespace_id, caller, 'consumer') THEN
        RETURN;
    END IF;
    IF log_page_back.event_types IS NOT NULL THEN
        asked := headwater_private.page_types(log_page_back.namespace_id, log_page_back.event_types);
        types := asked.types;
        IF asked.likes THEN
            query := replace(query, 'e.event_type = ANY', 'e.event_type LIKE ANY');
        END IF;
        IF asked.indexed THEN
            RETURN QUERY SELECT p.* FROM headwater_private.typed_page(log_page_back.namespace_id, log_page_back.from_sequence,
                greatest(log_page_back.before_sequence, 1) - 1, log_page_back.max_events, asked.types, log_page_back.stream,
                log_page_back.stream_prefix, true) p;
            RETURN;
        END IF;
    END IF;
    one := headwater_private.only_table(log_page_back.namespace_id, lowest, greatest(log_page_back.before_sequence, 1) - 1, log_page_back.from_at,
                                        log_page_back.until_at);
    IF one.name IS NOT NULL THEN
        RETURN QUERY EXECUTE format(query, one.name, one.condition)
            USING log_page_back.namespace_id, lowest, log_page_back.before_sequence, log_page_back.max_events,
                  coalesce(log_page_back.from_at, '-infinity'), coalesce(log_page_back.until_at, 'infinity'), types,
                  log_page_back.stream, log_page_back.stream_prefix;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT e.* FROM headwater_private.by_month(
               NULL::headwater_private.events, query, log_page_back.namespace_id, lowest, log_page_back.before_sequence, log_page_back.max_events,
               log_page_back.from_at, log_page_back.until_at, types, log_page_back.stream, log_page_back.stream_prefix,
               newest_first => true) e
     ORDER BY e.global_sequence DESC LIMIT log_page_back.max_events;
END
$$;
