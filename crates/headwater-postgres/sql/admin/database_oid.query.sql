-- Returns the oid of this database. Slots belong to the whole server, and so do their names.
SELECT oid::bigint FROM pg_database WHERE datname = pg_catalog.current_database()
