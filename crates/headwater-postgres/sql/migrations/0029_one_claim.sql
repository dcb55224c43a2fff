-- One way to claim: headwater.claim. What it is made of has other names, or other parameters.
-- Frozen once shipped.

DROP FUNCTION IF EXISTS headwater.claim(text, text, int, interval, text[], text, int, bigint, uuid[], int, headwater.caller);
DROP FUNCTION IF EXISTS headwater.claim_ranges(text, text, int, interval, text[], text, int, bigint, uuid[], headwater.caller);
DROP FUNCTION IF EXISTS headwater.claim_matching(text, text, int, interval, text[], text, int, uuid[], int, headwater.caller);
DROP FUNCTION IF EXISTS headwater.claimed_events(int, bigint, bigint, text[], bigint[], headwater.caller);
DROP FUNCTION IF EXISTS headwater_private.claim_run(text, text, int, interval, text, int, uuid[], int, name);
DROP FUNCTION IF EXISTS headwater_private.claim_with_care(text, text, int, interval, text[], text, int, bigint, uuid[], boolean);
DROP FUNCTION IF EXISTS headwater_private.newest_state(int, text);
DROP FUNCTION IF EXISTS headwater_private.is_idle(int, text, bigint, timestamptz);
DROP FUNCTION IF EXISTS headwater_private.ack_claims(int, text, uuid[], headwater_private.claims, boolean);
DROP FUNCTION IF EXISTS headwater_private.check_claim(text[], text, int);
DROP FUNCTION IF EXISTS headwater_private.expire_claims(int, text, bigint, bigint[], timestamptz, headwater_private.queue_state, boolean);
DROP FUNCTION IF EXISTS headwater_private.queue_letters(int, text, timestamptz);
DROP FUNCTION IF EXISTS headwater_private.take_new(text, int, text[], int, bigint, headwater_private.queue_state);
DROP FUNCTION IF EXISTS headwater_private.take_open(int, text[], int, headwater_private.queue_state);
DROP FUNCTION IF EXISTS headwater_private.take_retry(headwater_private.retries, text[], int);
