-- headwater.import_namespace(header, new_name)
-- Begins the import of an exported namespace: creates it with the settings of the first line of the
-- export, under its own name or another. headwater.import_lines imports the lines, and
-- headwater.import_finish ends the import, all in one transaction: nobody sees a part of it. Shared
-- months of the past take no more events, so an export that may have events of past months gets its
-- own tables.
-- Raises: WH002 (not an export, or of another format), WH003 (the name is taken), WH015 (others
-- than the owner), WH034 (no pg_partman). Locks, writes: see create_namespace.
CREATE OR REPLACE FUNCTION headwater.import_namespace(header text, new_name text DEFAULT NULL, caller headwater.caller DEFAULT current_user)
RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET intervalstyle = 'iso_8601' SET timezone = 'UTC' AS $$
DECLARE
    given jsonb;
    name  text;
    made  headwater.namespace;
    kept  timestamptz;
BEGIN
    PERFORM headwater_private.require_owner(caller);
    BEGIN
        given := header::jsonb;
    EXCEPTION WHEN data_exception THEN
        given := NULL;
    END;
    IF coalesce(given ->> 'kind' <> 'namespace' OR given ->> 'format' <> '1' OR given ->> 'head' !~ '^[0-9]{1,18}$' OR given ->> 'trimmed_to' !~ '^[0-9]{1,18}$'
                OR coalesce(given ->> 'kept_from' !~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+[+]00:00$', false), true) THEN
        PERFORM headwater_private.fail('WH002', format('not the first line of an export: %s', coalesce(nullif(left(header, 80), ''), 'nothing')), jsonb_build_object('what', 'header', 'value', left(header, 80)),
            'give a file that headwater namespace export wrote');
    END IF;
    BEGIN
        kept := given ->> 'kept_from';
    EXCEPTION WHEN data_exception THEN
        kept := 'infinity';
    END;
    IF (given ->> 'trimmed_to')::bigint > (given ->> 'head')::bigint OR kept > clock_timestamp() THEN
        PERFORM headwater_private.fail('WH002', 'the export contradicts itself: what was trimmed', jsonb_build_object('what', 'kept_from', 'value', given -> 'kept_from'),
            'the file is damaged: export it again');
    END IF;
    name := coalesce(import_namespace.new_name, given ->> 'namespace');
    IF EXISTS (SELECT FROM headwater_private.namespaces n WHERE n.namespace = name) THEN
        PERFORM headwater_private.fail('WH003', format('namespace %L exists already', name), jsonb_build_object('namespace', name),
            'bring it in under another name');
    END IF;
    made := headwater.create_namespace(name, given ->> 'ordering', (given ->> 'notify')::boolean, (given ->> 'retention')::interval,
        (given ->> 'max_payload_bytes')::int, given -> 'metadata', given ->> 'months_made_by',
        CASE WHEN given ->> 'storage' = 'shared' AND (given ->> 'recorded_from')::timestamptz >= date_trunc('month', clock_timestamp(), 'UTC') THEN 'shared' ELSE 'own' END, given ->> 'index');
    -- The head is kept in its final place until the end of the import: nobody else can see the
    -- namespace.
    IF made.ordering = 'gapless' THEN
        UPDATE headwater_private.counters c SET last_sequence = (given ->> 'head')::bigint WHERE c.namespace_id = made.namespace_id;
    ELSE
        PERFORM setval(n.sequence, (given ->> 'head')::bigint) FROM headwater_private.namespaces n WHERE n.namespace_id = made.namespace_id;
    END IF;
    -- Until its months are sealed, every event counts as part of the tail.
    UPDATE headwater_private.namespaces n SET trimmed_to = (given ->> 'trimmed_to')::bigint, kept_from = coalesce(kept, n.kept_from), tail_from = CASE n.storage WHEN 'own' THEN '-infinity' ELSE n.tail_from END WHERE n.namespace_id = made.namespace_id;
    RETURN name;
END
$$;
