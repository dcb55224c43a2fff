-- headwater_private.tail_events()
-- Returns the events in the table of the current month, for all namespaces that share their months.
-- A statement that reads from this function is planned as if it named that table. So it locks one
-- table, however many months are attached to `events`. Only a contiguous run proves that this is
-- everything the statement asked for: a sequence is in one table only, so a run without a hole is
-- complete wherever it was read. A reader that finds a hole, or nothing, must read `events`.
-- PostgreSQL inlines this function only if it has no SET clause. Its body names everything with its
-- schema, so no search_path matters.
-- name_tail replaces the body when a month begins.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.tail_events()
RETURNS SETOF headwater_private.events LANGUAGE sql STABLE AS 'SELECT * FROM headwater_private.events';
-- A migration has just replaced the body.
SELECT headwater_private.name_tail();
