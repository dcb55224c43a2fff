-- headwater.gap_events(namespace_id, firsts, lasts, max_events, from_at, until_at)
-- Returns what is visible in ranges of the log, in order, as this snapshot shows it. The ranges are
-- in order and do not overlap. Ranges with at most three events between them are read as one, and
-- the events between them are left out: that costs less than looking up each range. Most ranges
-- hold nothing, so nothing else is read. $5 and $6 are as in headwater.log_page.
-- Raises: WH001, WH015. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.gap_events(
    namespace_id int, firsts bigint[], lasts bigint[], max_events int, from_at timestamptz,
    until_at timestamptz, caller headwater.caller DEFAULT current_user
) RETURNS TABLE (global_sequence bigint, event_id uuid, stream_id text, stream_version bigint, event_type text,
               schema_version int, data jsonb, key text, actor_id text, correlation_id uuid, causation_id uuid,
               headers jsonb, created_at timestamptz, recorded_at timestamptz, transaction_id bigint) LANGUAGE plpgsql STABLE SECURITY DEFINER SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    -- A range is read together with the one before if it begins at most this far after its end.
    near   CONSTANT bigint := 4;
    -- The inner limit makes each part an index lookup of its own.
    query  CONSTANT text :=
        'SELECT e.* FROM unnest($13, $14) AS g(first, last)
          CROSS JOIN LATERAL (SELECT e.* FROM %s e
                               WHERE %s AND e.namespace_id = $1 AND e.global_sequence BETWEEN g.first AND g.last
                                 AND ($11)[width_bucket(e.global_sequence, $10)] >= e.global_sequence
                                 AND e.recorded_at >= $5 AND e.recorded_at < $6
                               ORDER BY e.global_sequence LIMIT $4) e
          ORDER BY e.global_sequence LIMIT $4';
    starts bigint[];
    ends   bigint[];
    -- Ranges that lie near each other, merged into one.
    froms  bigint[];
    tos    bigint[];
    one    record;
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'consumer');
    SELECT array_agg(g.first ORDER BY g.first), array_agg(g.last ORDER BY g.first) INTO starts, ends
      FROM unnest($2::bigint[], $3::bigint[]) AS g(first, last) WHERE g.first BETWEEN 1 AND g.last;
    IF starts IS NULL THEN
        RETURN;
    END IF;
    SELECT array_agg(p.first ORDER BY p.first), array_agg(p.last ORDER BY p.first) INTO froms, tos
      FROM (SELECT min(n.first) AS first, max(n.last) AS last
              FROM (SELECT o.first, o.last, count(*) FILTER (WHERE o.first - near > o.before) OVER (ORDER BY o.place) AS part
                      FROM (SELECT u.place, u.first, u.last, lag(u.last) OVER (ORDER BY u.place) AS before
                              FROM unnest(starts, ends) WITH ORDINALITY AS u(first, last, place)) o) n
             GROUP BY n.part) p;
    one := headwater_private.only_table($1, starts[1], ends[cardinality(ends)], $5, $6);
    IF one.name IS NOT NULL THEN
        RETURN QUERY EXECUTE
            'SELECT e.global_sequence, e.event_id, e.stream_id, e.stream_version, e.event_type, e.schema_version, e.data, e.key, e.actor_id,
                    e.correlation_id, e.causation_id, e.headers, e.created_at, e.recorded_at, e.transaction_id FROM ('
            || format(query, one.name, one.condition) || ') e'
            USING $1, NULL, NULL, $4, coalesce($5, '-infinity'), coalesce($6, 'infinity'), NULL, NULL, NULL, starts, ends, NULL, froms, tos;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT e.global_sequence, e.event_id, e.stream_id, e.stream_version, e.event_type, e.schema_version, e.data, e.key, e.actor_id,
           e.correlation_id, e.causation_id, e.headers, e.created_at, e.recorded_at, e.transaction_id
      FROM headwater_private.by_month(
               NULL::headwater_private.events, query, $1, starts[1], ends[cardinality(ends)], $4, $5, $6, sequences => starts, ends => ends,
               firsts => froms, lasts => tos) e
     ORDER BY e.global_sequence LIMIT $4;
END
$$;
