-- headwater_private.tail_events()
-- The events in the table of the current month, of all namespaces that share their months. A statement that reads from this function is
-- planned as if it named that table, so it locks one table, however many months are attached to `events`.
-- Whether this is all that was asked for, only a contiguous run proves: a sequence is in one table only, so a run without a hole is
-- complete wherever it was read. Whoever finds a hole, or nothing, must read `events`.
-- PostgreSQL inlines this function only if it has no SET clause. Its body names everything by its schema, so no path matters.
-- name_tail writes the body anew when a month begins.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.tail_events()
RETURNS SETOF headwater_private.events LANGUAGE sql STABLE AS 'SELECT * FROM headwater_private.events';
-- A migration has just replaced the body.
SELECT headwater_private.name_tail();
