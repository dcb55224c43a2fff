-- A migration looks nothing up in schemas that others can write to, and checks no function before
-- all functions exist.
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL check_function_bodies = off;
