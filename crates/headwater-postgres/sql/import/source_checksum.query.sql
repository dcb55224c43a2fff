-- Describes everything that is to be imported: how many rows, the sum of their hashes (60 bits of
-- an MD5 each, as in import_checksum.sql), and how many lack a value that orders rows. Rows with a
-- note are not imported yet. src/import/texts.rs fills in what stands in braces.
SELECT count(*) AS events,
       coalesce(sum(('x' || left(md5(concat_ws(E'\x1f', {id}::text, {event_type}, coalesce(({data})::jsonb, 'null')::text)), 15))::bit(60)::bigint), 0)::text
           AS checksum,
       count(*) FILTER (WHERE {unordered}) AS unordered
  FROM {from}
 WHERE {not_noted}
