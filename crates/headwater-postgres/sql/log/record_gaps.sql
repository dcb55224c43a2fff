-- headwater.record_gaps(namespace_id, firsts, lasts)
-- Records permanent gaps. From each it leaves out the parts that are recorded already, for example
-- as poison.
-- Raises: WH001, WH015, WH016. Locks: the rows that it writes. Writes: permanent gaps.
CREATE OR REPLACE FUNCTION headwater.record_gaps(
    namespace_id int, firsts bigint[], lasts bigint[], caller headwater.caller DEFAULT current_user
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    lowest  bigint := (SELECT min(g.first) FROM unnest($2) AS g(first));
    highest bigint := (SELECT max(g.last) FROM unnest($3) AS g(last));
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'consumer');
    PERFORM headwater_private.require_in_log($1, highest);
    -- No two recorded gaps overlap. So the last one that begins at or before the highest sequence
    -- tells whether any of these is known.
    IF (SELECT p.last_sequence FROM headwater_private.permanent_gaps p
         WHERE p.namespace_id = $1 AND p.first_sequence <= highest
         ORDER BY p.first_sequence DESC LIMIT 1) >= lowest IS NOT TRUE THEN
        INSERT INTO headwater_private.permanent_gaps (namespace_id, first_sequence, last_sequence, proof)
        SELECT $1, g.first, g.last, 'aborted' FROM unnest($2::bigint[], $3::bigint[]) AS g(first, last)
         WHERE g.first <= g.last
            ON CONFLICT DO NOTHING;
        RETURN;
    END IF;
    INSERT INTO headwater_private.permanent_gaps (namespace_id, first_sequence, last_sequence, proof)
    SELECT $1, part.first, part.last, 'aborted'
      FROM unnest($2::bigint[], $3::bigint[]) AS g(first, last)
     CROSS JOIN LATERAL (
            SELECT greatest(max(known.last) OVER (ORDER BY known.first ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), g.first - 1) + 1 AS first,
                   known.first - 1 AS last
              FROM ((SELECT p.first_sequence AS first, p.last_sequence AS last FROM headwater_private.permanent_gaps p
                      WHERE p.namespace_id = $1 AND p.first_sequence < g.first
                      ORDER BY p.first_sequence DESC LIMIT 1)
                     UNION ALL
                    SELECT p.first_sequence, p.last_sequence FROM headwater_private.permanent_gaps p
                     WHERE p.namespace_id = $1 AND p.first_sequence BETWEEN g.first AND g.last
                     UNION ALL
                    SELECT g.last + 1, g.last + 1) known) part
     WHERE part.first <= part.last
        ON CONFLICT DO NOTHING;
END
$$;
