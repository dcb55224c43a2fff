-- Months are shared: all namespaces whose storage is 'shared' keep the events of one month in one table, so that ten thousand
-- namespaces need no more tables than one. A namespace with storage 'own' has a tree of its own, as every namespace had before: its
-- table events_n<id> stays where it is, outside of any other.
-- Frozen once shipped.

-- All functions and views are made anew by migrate: many of them answer rows of the table `events`, which is replaced here.
DO $$
DECLARE
    thing record;
BEGIN
    FOR thing IN SELECT c.oid::regclass AS name FROM pg_catalog.pg_class c
                  WHERE c.relnamespace = 'headwater'::regnamespace AND c.relkind = 'v' LOOP
        EXECUTE format('DROP VIEW %s', thing.name);
    END LOOP;
    FOR thing IN SELECT p.oid::regprocedure AS name FROM pg_catalog.pg_proc p
                  WHERE p.pronamespace IN ('headwater'::regnamespace, 'headwater_private'::regnamespace)
                    AND p.prorettype <> 'trigger'::regtype LOOP
        EXECUTE format('DROP FUNCTION %s', thing.name);
    END LOOP;
    FOR thing IN SELECT i.inhrelid::regclass AS name FROM pg_catalog.pg_inherits i
                  WHERE i.inhparent = 'headwater_private.events'::regclass LOOP
        EXECUTE format('ALTER TABLE headwater_private.events DETACH PARTITION %s', thing.name);
    END LOOP;
END
$$;

ALTER TABLE headwater_private.events RENAME TO events_of_one;
-- The months of all namespaces that share them. Only those that somebody can still add to, and the last one before: older ones are
-- tables that stand alone, and headwater_private.months names them. So a statement on this table locks a handful of leaves,
-- however old the log is.
CREATE TABLE headwater_private.events (LIKE headwater_private.events_of_one INCLUDING DEFAULTS INCLUDING CONSTRAINTS)
    PARTITION BY RANGE (recorded_at);
DROP TABLE headwater_private.events_of_one;

ALTER TABLE headwater_private.namespaces
    -- 24 bits of an advisory lock key (see functions/writer_key.sql)
    ALTER COLUMN namespace_id SET MAXVALUE 16777215,
    -- 'shared': its events are in months that it shares. 'own': they are in the tree events_n<namespace_id>.
    ADD COLUMN storage text NOT NULL DEFAULT 'own' CHECK (storage IN ('shared', 'own'));
ALTER TABLE headwater_private.namespaces ALTER COLUMN storage SET DEFAULT 'shared';

-- What a table of a past month holds is asked by its name: who is still in it, and who has been trimmed.
CREATE INDEX months_by_leaf ON headwater_private.months (leaf, namespace_id);

DROP TYPE headwater.namespace;
CREATE TYPE headwater.namespace AS (
    namespace_id      int,
    namespace         text,
    ordering          text,
    notify            boolean,
    retention         interval,
    max_payload_bytes int,
    metadata          jsonb,
    created_at        timestamptz,
    partitions        text,
    storage           text
);

-- Namespaces that were dropped, and of which rows are left: those that may be many are deleted in batches (functions/purge_dropped.sql).
-- Nobody sees them, since a number is never used again.
CREATE TABLE headwater_private.dropped_namespaces (
    namespace_id int PRIMARY KEY,
    dropped_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- false: only tables of past months still have some
    has_rows     boolean NOT NULL DEFAULT true
);
-- Months outlive their namespace until the tables that they name are gone.
ALTER TABLE headwater_private.months DROP CONSTRAINT months_namespace_id_fkey;
