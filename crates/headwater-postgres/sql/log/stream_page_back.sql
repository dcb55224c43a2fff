-- headwater.stream_page_back(namespace_id, stream_id, from_version, to_version, max_events,
-- from_at, until_at)
-- headwater.stream_page backwards: the highest version first.
-- Raises: WH015 if the caller may not read it. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.stream_page_back(
    namespace_id int, stream_id text, from_version bigint, to_version bigint, max_events int,
    from_at timestamptz DEFAULT NULL, until_at timestamptz DEFAULT NULL,
    caller headwater.caller DEFAULT current_user
) RETURNS SETOF headwater_private.events LANGUAGE plpgsql STABLE SECURITY DEFINER SET enable_seqscan = off SET jit = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    query   CONSTANT text :=
        'SELECT e.* FROM %s e
          WHERE %s AND e.namespace_id = $1 AND e.stream_id = $8 AND e.stream_version >= ($13)[1] AND e.stream_version <= ($14)[1]
            AND e.recorded_at >= $5 AND e.recorded_at < $6
          ORDER BY e.stream_version DESC LIMIT $4';
    lowest  CONSTANT bigint[] := ARRAY[coalesce(stream_page_back.from_version, 1)];
    highest CONSTANT bigint[] := ARRAY[coalesce(stream_page_back.to_version, 9223372036854775807)];
    one     record;
BEGIN
    IF NOT headwater_private.authorize(stream_page_back.namespace_id, caller, 'consumer') THEN
        RETURN;
    END IF;
    one := headwater_private.only_table(stream_page_back.namespace_id, NULL, NULL, stream_page_back.from_at, stream_page_back.until_at);
    IF one.name IS NOT NULL THEN
        RETURN QUERY EXECUTE format(query, one.name, one.condition)
            USING stream_page_back.namespace_id, NULL, NULL, stream_page_back.max_events, coalesce(stream_page_back.from_at, '-infinity'),
                  coalesce(stream_page_back.until_at, 'infinity'), NULL, stream_page_back.stream_id, NULL, NULL, NULL, NULL, lowest, highest;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT e.* FROM headwater_private.by_month(
               NULL::headwater_private.events, query, stream_page_back.namespace_id, NULL, NULL, stream_page_back.max_events, stream_page_back.from_at,
               stream_page_back.until_at, stream => stream_page_back.stream_id, firsts => lowest, lasts => highest, newest_first => true) e
     ORDER BY e.stream_version DESC LIMIT stream_page_back.max_events;
END
$$;
