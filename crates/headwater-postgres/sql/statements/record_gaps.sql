-- Records permanent gaps, but for those that lie in the nearest one that is recorded.
INSERT INTO headwater.permanent_gaps (namespace_id, first_sequence, last_sequence, proof)
SELECT $1, g.first, g.last, 'aborted'
  FROM unnest($2::bigint[], $3::bigint[]) AS g(first, last)
 WHERE NOT EXISTS (
        SELECT FROM (SELECT p.last_sequence FROM headwater.permanent_gaps p
                      WHERE p.namespace_id = $1 AND p.first_sequence <= g.first
                      ORDER BY p.first_sequence DESC, p.last_sequence DESC LIMIT 1) nearest
         WHERE nearest.last_sequence >= g.last)
    ON CONFLICT DO NOTHING
