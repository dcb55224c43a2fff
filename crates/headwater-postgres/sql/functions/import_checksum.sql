-- headwater.import_checksum(namespace_id, import, first_sequence, last_sequence)
-- What an import has brought in: how many events, and the sum of their hashes, as in import/checksum.sql.
-- Raises: WH001, WH015. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.import_checksum(namespace_id int, import text, first_sequence bigint, last_sequence bigint, caller headwater.caller DEFAULT current_user)
RETURNS TABLE (events bigint, checksum text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, 'admin');
    RETURN QUERY EXECUTE
        'SELECT sum(e.events)::bigint, coalesce(sum(e.checksum), 0)::text FROM (' || headwater_private.over_months(
            'SELECT count(*) AS events,
                    sum((''x'' || left(md5(concat_ws(E''\x1f'', e.headers ->> ''source_id'', e.event_type, e.data::text)), 15))::bit(60)::bigint) AS checksum
               FROM %s e
              WHERE %s AND e.namespace_id = $1 AND e.global_sequence BETWEEN $3 AND $4 AND e.headers ->> ''import'' = $2', $1) || ') e'
        USING $1, $2, $3, $4;
END
$$;
