-- headwater.publish_namespace(namespace)
-- Public: in docs/sql.md.
-- Makes the publication by which the namespace's new events can be had from the WAL, if it is not there yet, and answers with its name. Of inserts
-- only, so that nobody needs a replica identity; through the namespace's partition, so that months to come are in it.
-- Raises: WH001 (no such namespace); 42501 unless the caller owns the tables and may CREATE in the database.
-- Locks: one advisory lock against other creators; SHARE UPDATE EXCLUSIVE on the namespace's partition. Writes: the publication.
CREATE OR REPLACE FUNCTION headwater.publish_namespace(namespace text)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    ns   headwater.namespaces := headwater.namespace_row(namespace);
    name text := format('headwater_n%s', ns.namespace_id);
BEGIN
    IF EXISTS (SELECT FROM pg_publication p WHERE p.pubname = name) THEN
        RETURN name;
    END IF;
    -- 0x48580001: Headwater's class of locks on publications
    PERFORM pg_advisory_xact_lock(1213726721, ns.namespace_id);
    IF NOT EXISTS (SELECT FROM pg_publication p WHERE p.pubname = name) THEN
        EXECUTE format('CREATE PUBLICATION %I FOR TABLE headwater.%I WITH (publish = ''insert'', publish_via_partition_root = true)',
            name, format('events_n%s', ns.namespace_id));
    END IF;
    RETURN name;
END
$$;
