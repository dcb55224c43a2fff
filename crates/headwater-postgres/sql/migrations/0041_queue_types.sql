-- What a queue takes, who works on it, and states that SQL can read.
-- Frozen once shipped.

ALTER TABLE headwater_private.subscribers
    -- The event types that a shared subscriber takes, as patterns. NULL: all. What it does not take is settled when a claim passes it.
    ADD COLUMN event_types text[];

-- The nodes that run a worker of a queue, and how many events it handles per second.
CREATE TABLE headwater_private.queue_workers (
    namespace_id  int NOT NULL,
    seen_until    timestamptz NOT NULL,
    rate          double precision NOT NULL,
    incarnation   uuid NOT NULL,
    subscriber_id text COLLATE "C" NOT NULL,
    node          text NOT NULL,
    PRIMARY KEY (namespace_id, subscriber_id, incarnation)
);

-- The event that made a state what it is. NULL: the program that wrote it did not say.
ALTER TABLE headwater_private.states ADD COLUMN global_sequence bigint;

-- They have one parameter more, or answer more.
DROP FUNCTION IF EXISTS headwater.register_subscriber(text, text, text, bigint, timestamptz, text, int, headwater.caller);
DROP FUNCTION IF EXISTS headwater.queue_status(text, text, headwater.caller);
DROP VIEW IF EXISTS headwater.queue_metrics;
DROP FUNCTION IF EXISTS headwater.queue_lags(headwater.caller);
DROP VIEW IF EXISTS headwater.subscriber_lag;
DROP FUNCTION IF EXISTS headwater.subscriber_lags(headwater.caller);
DROP FUNCTION IF EXISTS headwater.paused_subscribers(int, text[], headwater.caller);
DROP FUNCTION IF EXISTS headwater_private.close_gaps(int, bigint, headwater_private.queue_state);
DROP FUNCTION IF EXISTS headwater_private.expire_claims(int, text, bigint, bigint[], timestamptz, headwater_private.queue_state);
DROP FUNCTION IF EXISTS headwater_private.take_indexed(text, int, text[], text[], int, headwater_private.queue_state);
DROP FUNCTION IF EXISTS headwater_private.take_new(text, int, bigint, timestamptz, text[], text[], int, boolean, bigint,
                                                   headwater_private.queue_state);
DROP FUNCTION IF EXISTS headwater_private.tend_queue(text, headwater_private.claims, bigint, uuid[], boolean, text[], text[], boolean, timestamptz,
                                                     headwater_private.queue_state, int);
