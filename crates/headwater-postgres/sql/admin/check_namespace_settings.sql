-- headwater_private.check_namespace_settings(ordering, retention, max_payload_bytes, metadata,
-- months_made_by, storage)
-- Checks the settings of a namespace. NULL means not given.
-- Raises: WH002. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.check_namespace_settings(
    ordering text, retention interval, max_payload_bytes int, metadata jsonb, months_made_by text, storage text
) RETURNS void LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF ordering NOT IN ('sequence', 'gapless') THEN
        PERFORM headwater_private.fail('WH002', format('invalid ordering %L', left(ordering, 80)),
            jsonb_build_object('what', 'ordering', 'value', left(ordering, 80)), 'ordering is sequence or gapless');
    ELSIF months_made_by NOT IN ('built-in', 'pg_partman') THEN
        PERFORM headwater_private.fail('WH002', format('invalid months_made_by %L', left(months_made_by, 80)),
            jsonb_build_object('what', 'months_made_by', 'value', left(months_made_by, 80)), 'months_made_by is built-in or pg_partman');
    ELSIF storage NOT IN ('shared', 'own') THEN
        PERFORM headwater_private.fail('WH002', format('invalid storage %L', left(storage, 80)),
            jsonb_build_object('what', 'storage', 'value', left(storage, 80)), 'storage is shared or own');
    ELSIF months_made_by = 'pg_partman' AND storage = 'shared' THEN
        PERFORM headwater_private.fail('WH002', 'invalid storage ''shared'': pg_partman makes months of one namespace only',
            jsonb_build_object('what', 'storage', 'value', storage), 'use storage => ''own'', or months_made_by => ''built-in''');
    ELSIF max_payload_bytes NOT BETWEEN 1 AND 268435456 THEN
        PERFORM headwater_private.fail('WH002', format('invalid max_payload_bytes %s', max_payload_bytes),
            jsonb_build_object('what', 'max_payload_bytes', 'value', max_payload_bytes), 'max_payload_bytes is 1 to 268435456 (256 MiB)');
    ELSIF jsonb_typeof(metadata) <> 'object' THEN
        PERFORM headwater_private.fail('WH002', 'invalid metadata: not a JSON object',
            jsonb_build_object('what', 'metadata', 'value', jsonb_typeof(metadata)), 'metadata is a JSON object');
    END IF;
    IF retention IS NOT NULL THEN
        PERFORM headwater_private.check_interval('retention', retention, '28 days', '1000 years',
            'retention is an interval of a month to 1000 years, since whole months are dropped, or NULL to keep events for ever');
    END IF;
END
$$;
