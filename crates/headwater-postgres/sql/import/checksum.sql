-- What is to be imported in all: how many rows, the sum of their hashes (60 bits of an MD5 each, as
-- in statements/import_checksum.sql), and how many lack a value by which rows are ordered. Rows
-- with a note are not imported yet. What stands in braces is put in by src/import/texts.rs.
SELECT count(*) AS events,
       coalesce(sum(('x' || left(md5(concat_ws(E'\x1f', {id}::text, {event_type}, coalesce(({data})::jsonb, 'null')::text)), 15))::bit(60)::bigint), 0)::text
           AS checksum,
       count(*) FILTER (WHERE {unordered}) AS unordered
  FROM {from}
 WHERE {not_noted}
