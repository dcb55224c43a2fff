-- Readers find the table as a day later: no hint bits left to set.
VACUUM (ANALYZE) headwater_private.events
