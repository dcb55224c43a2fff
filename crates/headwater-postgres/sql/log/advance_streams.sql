-- headwater_private.advance_streams(namespace_id, write_request, write_stream, write_count,
-- write_expected, recorded_at)
-- Checks the expected version of each write, and moves the streams of the requests that pass.
-- append_batch describes the arrays.
-- Returns: bases, the version of each write's stream before the write; succeeded, whether each
-- request passed, NULL if all passed.
-- Raises: nothing. Locks: the rows of the streams, in order of their ids. Writes: these rows.
CREATE OR REPLACE FUNCTION headwater_private.advance_streams(
    namespace_id int, write_request int[], write_stream text[], write_count int[], write_expected bigint[],
    recorded_at timestamptz,
    OUT bases bigint[], OUT succeeded boolean[]
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    -- `made`: the streams that this call creates. `versions`: the versions of the streams that
    -- exist already, by id. Both are objects because a lookup in an object is cheap in every plan.
    -- A join of two arrays is quadratic in a plan that was made for short arrays, and so is a
    -- comparison with all elements.
    made     jsonb := '{}';
    versions jsonb;
    moved    int;
BEGIN
    -- Usually every write expects a version, and every stream has it: then one statement is enough.
    -- If a stream has another version, that statement is undone and each write is judged below.
    IF 0 < ALL (write_expected) THEN
        BEGIN
            UPDATE headwater_private.streams s
               SET version = s.version + w.count, first_at = least(s.first_at, recorded_at), last_at = greatest(s.last_at, recorded_at)
              FROM (SELECT u.stream, u.count, u.expected
                      FROM unnest(write_stream, write_count, write_expected) AS u(stream, count, expected)
                     ORDER BY u.stream) AS w
             WHERE s.namespace_id = namespace_id AND s.stream_id = w.stream AND s.version = w.expected;
            GET DIAGNOSTICS moved = ROW_COUNT;
            IF moved = cardinality(write_stream) THEN
                bases := write_expected;
                RETURN;
            END IF;
            RAISE EXCEPTION USING ERRCODE = 'WH099', MESSAGE = 'a stream is not as expected';
        EXCEPTION WHEN SQLSTATE 'WH099' THEN
            moved := 0;
        END;
    END IF;

    -- Create the new streams first, with the version that they will have. If another transaction
    -- has created the same stream and has not committed, this waits for it.
    IF write_expected IS NULL OR 0 = ANY (write_expected) OR array_position(write_expected, NULL) IS NOT NULL THEN
        WITH inserted AS (
            INSERT INTO headwater_private.streams AS s (namespace_id, stream_id, version, first_at, last_at)
            SELECT namespace_id, w.stream, sum(w.count), recorded_at, recorded_at
              FROM unnest(write_stream, write_count, write_expected) AS w(stream, count, expected)
             WHERE coalesce(w.expected, 0) = 0
             GROUP BY w.stream ORDER BY w.stream
            ON CONFLICT DO NOTHING
            RETURNING s.stream_id
        )
        SELECT coalesce(jsonb_object_agg(i.stream_id, true), '{}') INTO made FROM inserted i;
    END IF;

    SELECT coalesce(jsonb_object_agg(l.stream_id, l.version), '{}') INTO versions
      FROM (SELECT s.stream_id, s.version FROM headwater_private.streams s
             WHERE s.namespace_id = namespace_id
               AND s.stream_id = ANY (ARRAY(SELECT w.stream FROM (SELECT unnest(write_stream) AS stream) w WHERE NOT made ? w.stream))
             ORDER BY s.stream_id FOR NO KEY UPDATE) l;
    WITH judged AS MATERIALIZED (
        SELECT w.request, w.base,
               CASE WHEN w.expected IS NULL THEN true
                    WHEN w.expected = -1 THEN w.base > 0
                    ELSE w.base = w.expected END AS passed
          FROM (SELECT u.request, u.expected, coalesce((versions ->> u.stream)::bigint, 0) AS base
                  FROM (SELECT unnest(write_stream) AS stream, unnest(write_request) AS request, unnest(write_expected) AS expected) u
                OFFSET 0) w
    )
    SELECT array_agg(j.base),
           CASE WHEN NOT bool_and(j.passed) THEN
               ARRAY(SELECT bool_and(f.passed)
                       FROM (SELECT m.request, m.passed FROM judged m
                              UNION ALL
                             SELECT generate_series(1, (SELECT max(m.request) FROM judged m)), true) AS f(request, passed)
                      GROUP BY f.request ORDER BY f.request)
           END
      INTO bases, succeeded FROM judged j;

    IF versions <> '{}' THEN
        UPDATE headwater_private.streams s
           SET version = s.version + w.count, first_at = least(s.first_at, recorded_at), last_at = greatest(s.last_at, recorded_at)
          FROM (SELECT w.stream, sum(w.count) AS count
                  FROM unnest(write_stream, write_request, write_count) AS w(stream, request, count)
                 WHERE (succeeded IS NULL OR succeeded[w.request]) AND versions ? w.stream
                 GROUP BY w.stream) AS w
         WHERE s.namespace_id = namespace_id AND s.stream_id = w.stream;
    END IF;

    IF succeeded IS NOT NULL AND made <> '{}' THEN
        DELETE FROM headwater_private.streams s
         USING unnest(write_stream, write_request) AS w(stream, request)
         WHERE NOT succeeded[w.request] AND s.namespace_id = namespace_id AND s.stream_id = w.stream AND made ? w.stream;
    END IF;
END
$$;
