-- headwater.record_gaps(namespace_id, firsts, lasts)
-- Records permanent gaps, but for those that lie in the nearest one that is recorded.
-- Raises: WH001, WH015, WH016. Locks: the rows that it writes. Writes: as it says.
CREATE OR REPLACE FUNCTION headwater.record_gaps(
    namespace_id int, firsts bigint[], lasts bigint[], caller headwater.caller DEFAULT current_user
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'consumer');
    PERFORM headwater_private.require_in_log($1, (SELECT max(g.last) FROM unnest($3) AS g(last)));
    INSERT INTO headwater_private.permanent_gaps (namespace_id, first_sequence, last_sequence, proof)
    SELECT $1, g.first, g.last, 'aborted'
      FROM unnest($2::bigint[], $3::bigint[]) AS g(first, last)
     WHERE NOT EXISTS (
            SELECT FROM (SELECT p.last_sequence FROM headwater_private.permanent_gaps p
                          WHERE p.namespace_id = $1 AND p.first_sequence <= g.first
                          ORDER BY p.first_sequence DESC, p.last_sequence DESC LIMIT 1) nearest
             WHERE nearest.last_sequence >= g.last)
        ON CONFLICT DO NOTHING;
END
$$;
