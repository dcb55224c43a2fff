-- Claims whose events are all in one table: a run of the log without a hole, or events of some types out of such a run. They are read there, and
-- no other month is opened (functions/tail_events.sql).
-- Frozen once shipped.

ALTER TABLE headwater_private.claims ADD COLUMN one_table boolean NOT NULL DEFAULT false;
-- How far the log was seen without a hole: from now on, in one table. What was seen before may be in two.
UPDATE headwater_private.claims SET state.known = NULL WHERE (state).known IS NOT NULL;

DROP FUNCTION IF EXISTS headwater.claim(text, text, int, interval, text[], text, int, uuid[], int, bigint, headwater.caller);
DROP FUNCTION IF EXISTS headwater_private.take_claims(text, text, int, interval, text[], text[], text, int, uuid[], int, bigint, boolean, name);
DROP FUNCTION IF EXISTS headwater_private.take_new(text, int, bigint, timestamptz, text[], text[], int, boolean, bigint, headwater_private.queue_state);
DROP FUNCTION IF EXISTS headwater_private.take_open(int, bigint, timestamptz, text[], text[], int, bigint, headwater_private.queue_state);
DROP FUNCTION IF EXISTS headwater_private.split_claim(headwater_private.claims, bigint[], boolean, int);
