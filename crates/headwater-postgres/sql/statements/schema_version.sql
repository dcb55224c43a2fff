-- Whether Headwater's schema is there.
SELECT to_regclass('headwater.migrations') IS NOT NULL
