-- What the functions that make, change and look at a namespace answer: no column that only Headwater needs, and none that is infinite, which many drivers
-- cannot read. A function's type cannot be changed, so those that are there go; migrate makes them anew.
CREATE TYPE headwater.namespace AS (
    namespace_id      int,
    namespace         text,
    ordering          text,
    notify            boolean,
    retention         interval,
    max_payload_bytes int,
    metadata          jsonb,
    created_at        timestamptz,
    partitions        text
);
DO $$
DECLARE
    old regprocedure;
BEGIN
    FOR old IN SELECT p.oid FROM pg_catalog.pg_proc p
                WHERE p.pronamespace = 'headwater'::regnamespace AND p.proname IN ('create_namespace', 'alter_namespace', 'doctor_namespaces') LOOP
        EXECUTE format('DROP FUNCTION %s', old);
    END LOOP;
END
$$;

-- A retention that no time can be added to: nothing was ever older, so nothing changes but that it can be told.
UPDATE headwater_private.namespaces SET retention = '1000 years' WHERE retention > interval '1000 years';

-- Events of one stream go out in the order in which they are due.
CREATE INDEX due_events_stream ON headwater_private.due_events (namespace_id, stream_id, due_at, due_id) WHERE stream_id IS NOT NULL;
