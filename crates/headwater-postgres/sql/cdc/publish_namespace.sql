-- headwater.publish_namespace(namespace)
-- Public: in docs/sql.md.
-- Creates the publication that makes the namespace's new events available from the WAL, if it does
-- not exist yet, and returns its name. It publishes inserts only, so that nobody needs a replica
-- identity. It publishes through the partitioned table, so that coming months are included. Where
-- namespaces share their months, only the owner of the tables can create it.
-- Raises: WH001 (no such namespace), WH015; 42501 unless the owner of the tables may CREATE in the
-- database.
-- Locks: a latch against other creators; SHARE UPDATE EXCLUSIVE on the partitioned table. Writes:
-- the publication.
CREATE OR REPLACE FUNCTION headwater.publish_namespace(namespace text, caller headwater.caller DEFAULT current_user)
RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns   headwater_private.namespaces := headwater_private.open_namespace(namespace, caller, 'consumer');
    name text := format('headwater_n%s', ns.namespace_id);
BEGIN
    IF EXISTS (SELECT FROM pg_publication p WHERE p.pubname = name) THEN
        RETURN name;
    END IF;
    IF ns.storage = 'shared' THEN
        -- Until the transaction ends, nobody can create a month.
        PERFORM headwater_private.require_owner(caller);
    END IF;
    PERFORM headwater_private.latch(ns.namespace_id, 'publication');
    IF NOT EXISTS (SELECT FROM pg_publication p WHERE p.pubname = name) THEN
        EXECUTE format('CREATE PUBLICATION %I FOR TABLE %s WITH (publish = ''insert'', publish_via_partition_root = true)',
            name, headwater_private.published_table(headwater_private.namespace_row(publish_namespace.namespace)));
    END IF;
    RETURN name;
END
$$;
