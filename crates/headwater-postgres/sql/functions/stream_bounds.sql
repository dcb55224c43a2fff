-- headwater_private.stream_bounds(namespace_id, stream_id, from_version, to_version, max_events, backwards)
-- When the events were recorded that a read of a stream needs: from `from_at` on, before `until_at`. The stream's row knows its first and its last
-- moment. Between them, versions are looked for month by month, from the nearer end, in growing steps: a stream has no gaps, so whoever found
-- as many versions as there are needs no further month, whatever the clock did meanwhile. If some are not found, they were trimmed.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.stream_bounds(
    namespace_id int, stream_id text, from_version bigint, to_version bigint, max_events int, backwards boolean,
    OUT from_at timestamptz, OUT until_at timestamptz
) LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    stream record;
    lowest bigint;
    highest bigint;
    cuts   timestamptz[];
    at     int;
    to_    int;
    step   int := 1;
    found_ bigint := 0;
    part   bigint;
    from_  timestamptz;
    until_ timestamptz;
    rising boolean;
BEGIN
    SELECT s.version, greatest(n.kept_from, s.first_at) AS first_at, s.last_at + interval '1 microsecond' AS end_at
      INTO stream
      FROM headwater_private.namespaces n
      LEFT JOIN headwater_private.streams s ON s.namespace_id = n.namespace_id AND s.stream_id = stream_bounds.stream_id
     WHERE n.namespace_id = stream_bounds.namespace_id;
    lowest := greatest(stream_bounds.from_version, 1);
    highest := least(stream_bounds.to_version, stream.version);
    IF stream_bounds.backwards THEN
        lowest := greatest(lowest, highest - stream_bounds.max_events + 1);
    ELSIF lowest <= highest THEN
        highest := least(highest, lowest + stream_bounds.max_events - 1);
    END IF;
    IF stream.version IS NULL OR highest < lowest THEN
        -- Nothing to read.
        from_at := 'infinity';
        until_at := 'infinity';
        RETURN;
    END IF;
    from_at := stream.first_at;
    until_at := stream.end_at;
    cuts := ARRAY(SELECT m.ends_at FROM headwater_private.months m
                   WHERE m.namespace_id = stream_bounds.namespace_id AND m.ends_at > stream.first_at AND m.ends_at < stream.end_at
                   ORDER BY m.starts_at);
    IF cardinality(cuts) < 2 THEN
        RETURN;
    END IF;
    cuts := stream.first_at || cuts || stream.end_at;
    rising := lowest - 1 < stream.version - highest;
    at := CASE WHEN rising THEN 1 ELSE cardinality(cuts) END;
    LOOP
        to_ := CASE WHEN rising THEN least(at + step, cardinality(cuts)) ELSE greatest(at - step, 1) END;
        from_ := least(cuts[at], cuts[to_]);
        until_ := greatest(cuts[at], cuts[to_]);
        EXECUTE 'SELECT sum(e.found) FROM (' || headwater_private.over_months(
                    'SELECT count(*) AS found FROM %s e
                      WHERE %s AND e.namespace_id = $1 AND e.stream_id = $2 AND e.stream_version BETWEEN $3 AND $4
                        AND e.recorded_at >= $5 AND e.recorded_at < $6', stream_bounds.namespace_id, from_, until_) || ') e'
           INTO part USING stream_bounds.namespace_id, stream_bounds.stream_id, lowest, highest, from_, until_;
        IF rising THEN
            from_at := CASE WHEN found_ = 0 THEN from_ ELSE from_at END;
            until_at := until_;
        ELSE
            from_at := from_;
            until_at := CASE WHEN found_ = 0 THEN until_ ELSE until_at END;
        END IF;
        found_ := found_ + part;
        EXIT WHEN found_ > highest - lowest;
        IF to_ IN (1, cardinality(cuts)) THEN
            from_at := stream.first_at;
            until_at := stream.end_at;
            EXIT;
        END IF;
        at := to_;
        step := step * 2;
    END LOOP;
END
$$;
