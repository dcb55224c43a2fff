-- The number of this database: slots are a server's, and their names too.
SELECT oid::bigint FROM pg_database WHERE datname = pg_catalog.current_database()
