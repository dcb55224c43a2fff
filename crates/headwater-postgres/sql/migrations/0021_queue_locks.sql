-- Queues: their lock is a row that nobody else can lock, what was lost with its worker comes back alone, and clocks may go back.
-- Frozen once shipped.

-- One row per queue, which is locked by whoever claims, hands back or resets. Nothing is ever written in it. UNLOGGED, so that a claim that finds
-- nothing writes nothing to the WAL; a crash empties it, and the next claim makes the row again.
CREATE UNLOGGED TABLE headwater_private.queues (
    namespace_id  int NOT NULL,
    subscriber_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (namespace_id, subscriber_id)
);

ALTER TABLE headwater_private.claims
    -- Whether its expiry counts as an attempt: it was handed out alone.
    ADD COLUMN counts boolean NOT NULL DEFAULT false,
    -- A worker was lost with the event before.
    ADD COLUMN suspect boolean NOT NULL DEFAULT false,
    -- How often it was delivered without that being counted as an attempt.
    ADD COLUMN uncounted int NOT NULL DEFAULT 0;
-- A worker has one suspect at a time.
CREATE INDEX claims_of_suspects ON headwater_private.claims (namespace_id, subscriber_id, worker) WHERE suspect;

ALTER TABLE headwater_private.retries
    -- A worker was lost with these events: each is handed out alone.
    ADD COLUMN suspect boolean NOT NULL DEFAULT false,
    ADD COLUMN uncounted int NOT NULL DEFAULT 0;
DROP INDEX headwater_private.retries_by_due;
CREATE INDEX retries_by_due ON headwater_private.retries ((subscriber_id || '/' || namespace_id::text), suspect, due_at, number);

-- When the state was written, by the clock of then: a clock that shows less has gone back. NULL: not known.
ALTER TYPE headwater_private.queue_state ADD ATTRIBUTE moment timestamptz;

-- They answer more, or have one parameter more.
DROP FUNCTION IF EXISTS headwater_private.newest_state(int, text);
DROP FUNCTION IF EXISTS headwater_private.claim_with_care(text, text, int, interval, text[], text, int, bigint, uuid[]);
DROP FUNCTION IF EXISTS headwater_private.look_by(headwater_private.claims, timestamptz);
