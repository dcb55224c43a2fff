-- Queues: shared subscribers, whose events are claimed.
-- Frozen once shipped.

-- Numbers of claims and retries, of all subscribers: ascending in each.
CREATE SEQUENCE headwater.claim_numbers CACHE 1 NO CYCLE;

-- Events of one type that lie behind the frontier of a queue and that nobody has claimed.
CREATE TYPE headwater.open_range AS (first_sequence bigint, last_sequence bigint, event_type text);

-- Where a queue stands. It is not a row that is rewritten: each claim carries the whole of it, and the newest has it as it is.
CREATE TYPE headwater.queue_state AS (
    -- everything at or below was claimed, but for the gaps and the open ranges
    frontier         bigint,
    -- gaps that were passed and are not closed: first, last, first, last, …
    gaps             bigint[],
    open             headwater.open_range[],
    -- no claim that is not done has a visible_at below this, but for those that were skipped
    expired_from     timestamptz,
    -- no retry has a due_at below this
    due_from         timestamptz,
    -- the last visible_at that was handed out
    last_visible_at  timestamptz,
    -- the numbers of expired claims that somebody had locked
    skipped          bigint[],
    -- no claim expires and no retry is due before this: until then, neither is looked for
    look_at          timestamptz
);

-- One row a claim, for a range of the log or for some of its events. Rows come and go by the thousand, and where a snapshot is held they stay
-- for a while: so no lookup may pass over rows that are gone. The newest row is never deleted but by a newer one's transaction, so it is found
-- at once; expired ones are looked for from `expired_from` on. That has an index over an expression, which nothing else can use: it would look as
-- good as the right one to a planner that has seen the table empty.
CREATE TABLE headwater.claims (
    namespace_id   int NOT NULL,
    attempts       int NOT NULL,
    max_attempts   int NOT NULL,
    -- of a dead letter that is delivered again
    of_letter      boolean NOT NULL,
    -- nothing of it is left to do: it is there for its state
    done           boolean NOT NULL,
    number         bigint NOT NULL,
    first_sequence bigint NOT NULL,
    last_sequence  bigint NOT NULL,
    visible_at     timestamptz NOT NULL,
    claim_id       uuid NOT NULL,
    subscriber_id  text COLLATE "C" NOT NULL,
    worker         text NOT NULL,
    -- only those of these types; NULL: all
    event_types    text[],
    -- these and no others, ascending; NULL: all in the range
    sequences      bigint[],
    -- the attempts that failed
    failures       jsonb NOT NULL,
    state          headwater.queue_state NOT NULL,
    PRIMARY KEY (namespace_id, subscriber_id, number)
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX claims_by_id ON headwater.claims (claim_id);
CREATE INDEX claims_by_visibility ON headwater.claims ((subscriber_id || '/' || namespace_id::text), visible_at);

-- Events to deliver again: handed back, or claimed until the claim expired. Written under the queue's lock only.
CREATE TABLE headwater.retries (
    namespace_id  int NOT NULL,
    attempts      int NOT NULL,
    number        bigint NOT NULL,
    due_at        timestamptz NOT NULL,
    of_letter     boolean NOT NULL,
    subscriber_id text COLLATE "C" NOT NULL,
    -- ascending
    sequences     bigint[] NOT NULL,
    -- their types
    event_types   text[] NOT NULL,
    failures      jsonb NOT NULL,
    PRIMARY KEY (namespace_id, subscriber_id, number)
);
CREATE INDEX retries_by_due ON headwater.retries ((subscriber_id || '/' || namespace_id::text), due_at, number);

-- Whether a letter that is redriven is among the retries or claims of its queue already.
ALTER TABLE headwater.dead_letters ADD COLUMN queued boolean NOT NULL DEFAULT false;
