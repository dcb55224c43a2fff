-- headwater.create_namespace(namespace, ordering, notify, retention, max_payload_bytes, metadata,
-- months_made_by, storage, index)
-- Public: in docs/sql.md.
-- Creates a namespace, or returns the existing one. A setting that is NULL takes its default on
-- creation, and is not compared afterwards. A given setting that differs from the existing
-- namespace is an error, never a silent change.
--   ordering           'sequence' (default): writers never wait for each other; rollbacks leave
--                      holes
--                      'gapless': no holes, commit order = sequence order; writers wait for each
--                      other
--   notify             NOTIFY in the transaction of SQL callers (default true)
--   retention          how long events are kept, at least a month (default: forever)
--   max_payload_bytes  largest payload of an event (default 1 MiB)
--   months_made_by         who creates the tables of coming months: 'built-in' (default) or
--                      'pg_partman', which must be installed
--   storage            'shared' (default): its events are in months that it shares with other
--                      namespaces
--                      'own': it has its own months, for a namespace that is much larger than
--                      others; pg_partman needs this
--   index              'none' (default), or 'types': a type index of its events, for filtered reads
--                      and claims; each event costs one more row
-- Raises: WH002 (bad name or setting), WH003 (exists with other settings), WH015 (others than the
-- owner), WH034 (no pg_partman).
-- Locks: only what it writes; it waits for another creator of the same name. Writes: the namespace,
-- its sequence or counter, and missing months.
CREATE OR REPLACE FUNCTION headwater.create_namespace(
    namespace         text,
    ordering          text DEFAULT NULL,
    notify            boolean DEFAULT NULL,
    retention         interval DEFAULT NULL,
    max_payload_bytes int DEFAULT NULL,
    metadata          jsonb DEFAULT NULL,
    months_made_by        text DEFAULT NULL,
    storage           text DEFAULT NULL,
    index             text DEFAULT NULL,
    caller headwater.caller DEFAULT current_user
) RETURNS headwater.namespace LANGUAGE plpgsql SECURITY DEFINER SET default_tablespace = '' SET default_table_access_method = 'heap' SET search_path = pg_catalog, pg_temp
SET datestyle = 'ISO' SET intervalstyle = 'postgres' SET timezone = 'UTC' AS $$
#variable_conflict use_variable
DECLARE
    ns    headwater_private.namespaces;
    epoch timestamptz := date_trunc('month', clock_timestamp(), 'UTC');
BEGIN
    IF namespace IS NULL OR namespace !~ '^[a-z][a-z0-9_-]{0,47}$' THEN
        PERFORM headwater_private.fail('WH002', format('invalid namespace %L', left(namespace, 80)),
            jsonb_build_object('what', 'namespace', 'value', left(namespace, 80)),
            'a namespace is 1 to 48 characters, lowercase letters, digits, ''-'' and ''_'', and starts with a letter');
    END IF;
    PERFORM headwater_private.check_namespace_settings(ordering, retention, max_payload_bytes, metadata, months_made_by, storage);
    PERFORM headwater_private.check_index(index);
    SELECT n.* INTO ns FROM headwater_private.namespaces n WHERE n.namespace = create_namespace.namespace;
    -- Programs call this when they start: a caller that was granted something in the namespace gets
    -- it.
    IF NOT FOUND OR NOT headwater_private.is_granted(ns.namespace_id, caller, NULL) THEN
        PERFORM headwater_private.require_owner(caller);
    END IF;
    IF ns.namespace_id IS NOT NULL THEN
        IF ordering <> ns.ordering OR notify <> ns.notify
           OR (retention IS NOT NULL AND retention IS DISTINCT FROM ns.retention)
           OR max_payload_bytes <> ns.max_payload_bytes OR metadata <> ns.metadata OR months_made_by <> ns.months_made_by
           OR storage <> ns.storage OR index <> ns.index THEN
            PERFORM headwater_private.fail('WH003', format('namespace %L exists with other settings', namespace),
                to_jsonb(headwater_private.shown_namespace(ns)),
                'leave out the settings to use it as it is, or change them with headwater.alter_namespace (storage: headwater.set_storage)');
        END IF;
        RETURN headwater_private.shown_namespace(ns);
    END IF;

    INSERT INTO headwater_private.namespaces AS n (namespace, ordering, notify, retention, max_payload_bytes, metadata,
                                           leaves_until, sealed_before, tail_from, months_made_by, storage)
    VALUES (namespace, coalesce(ordering, 'sequence'), coalesce(notify, true), retention,
            coalesce(max_payload_bytes, 1048576), coalesce(metadata, '{}'), epoch, epoch, epoch, coalesce(months_made_by, 'built-in'),
            coalesce(storage, CASE WHEN months_made_by = 'pg_partman' THEN 'own' ELSE 'shared' END))
    ON CONFLICT DO NOTHING
    RETURNING n.* INTO ns;
    IF NOT FOUND THEN
        -- Somebody else was faster: compare what they created with what this call asks for.
        RETURN headwater.create_namespace(namespace, ordering, notify, retention, max_payload_bytes, metadata, months_made_by, storage, index);
    END IF;
    IF ns.ordering = 'gapless' THEN
        INSERT INTO headwater_private.counters (namespace_id, storage) VALUES (ns.namespace_id, ns.storage);
    ELSE
        -- CACHE 1, and the first value is consumed here: the horizon depends on last_value being
        -- below every event.
        EXECUTE format('CREATE SEQUENCE headwater_private.sequence_n%s MINVALUE 0 START 0 CACHE 1', ns.namespace_id);
        ns.sequence := format('headwater_private.sequence_n%s', ns.namespace_id)::regclass;
        PERFORM nextval(ns.sequence);
        UPDATE headwater_private.namespaces n SET sequence = ns.sequence WHERE n.namespace_id = ns.namespace_id;
    END IF;
    IF ns.storage = 'own' THEN
        EXECUTE format('CREATE TABLE headwater_private.%I (LIKE headwater_private.events INCLUDING DEFAULTS INCLUDING CONSTRAINTS)
                        PARTITION BY RANGE (recorded_at)', headwater_private.log_table(ns));
    END IF;
    PERFORM headwater.maintain_namespace(namespace);
    IF index = 'types' THEN
        PERFORM headwater_private.set_index(ns, index);
    END IF;
    RETURN headwater_private.shown_namespace(headwater_private.namespace_row(namespace));
END
$$;
