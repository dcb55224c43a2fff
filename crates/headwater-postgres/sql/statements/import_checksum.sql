-- What an import has brought in: how many events, and the sum of their hashes, as in import/checksum.sql.
SELECT count(*) AS events,
       coalesce(sum(('x' || left(md5(concat_ws(E'\x1f', e.headers ->> 'source_id', e.event_type, e.data::text)), 15))::bit(60)::bigint), 0)::text AS checksum
  FROM headwater.events e
 WHERE e.namespace_id = $1 AND e.global_sequence BETWEEN $3 AND $4 AND e.headers ->> 'import' = $2
