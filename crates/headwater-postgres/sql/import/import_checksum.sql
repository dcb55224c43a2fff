-- headwater.import_checksum(namespace_id, import, first_sequence, last_sequence)
-- Returns how many events an import has brought in, and the sum of their hashes, as in
-- source_checksum.query.sql.
-- Raises: WH001, WH015. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.import_checksum(namespace_id int, import text, first_sequence bigint, last_sequence bigint, caller headwater.caller DEFAULT current_user)
RETURNS TABLE (events bigint, checksum text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'admin');
    RETURN QUERY
    SELECT coalesce(sum(m.sums[1]), 0)::bigint, coalesce(sum(m.sums[2]), 0)::text
      FROM headwater_private.by_month(
               NULL::numeric[],
               'SELECT ARRAY[count(*), sum((''x'' || left(md5(concat_ws(E''\x1f'', e.headers ->> ''source_id'', e.event_type, e.data::text)), 15))::bit(60)::bigint)]
                  FROM %s e
                 WHERE %s AND e.namespace_id = $1 AND e.global_sequence BETWEEN $2 AND $3 AND e.headers ->> ''import'' = $8',
               $1, $3, $4, stream => $2) AS m(sums);
END
$$;
