-- Creates the table that records migrations. It runs under the migration lock.
CREATE SCHEMA IF NOT EXISTS headwater;
CREATE TABLE IF NOT EXISTS headwater.migrations (
    version    bigint PRIMARY KEY,
    name       text NOT NULL,
    checksum   text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT pg_catalog.now()
);
-- One row: the revision of the functions, which are replaced whole.
CREATE TABLE IF NOT EXISTS headwater.functions_revision (
    revision   bigint NOT NULL,
    checksum   text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT pg_catalog.now()
);
