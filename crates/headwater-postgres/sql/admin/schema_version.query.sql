-- Returns whether Headwater's schema exists.
SELECT pg_catalog.to_regclass('headwater.migrations') IS NOT NULL
