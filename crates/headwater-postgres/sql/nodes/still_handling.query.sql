-- Returns whether this is still the transaction that begin_limited.sql marked. It is not if that
-- one was committed or rolled back since.
SELECT coalesce(pg_catalog.current_setting('headwater.handling', true), '') = 'on'
