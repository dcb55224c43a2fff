-- Whether Headwater's schema is there.
SELECT pg_catalog.to_regclass('headwater.migrations') IS NOT NULL
