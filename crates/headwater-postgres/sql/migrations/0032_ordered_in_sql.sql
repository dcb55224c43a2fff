-- Ordered consuming by SQL: what its functions write down between two calls.
-- Frozen once shipped.

-- The events of a partition that failed and are to be tried again: one event, or a whole bundle. There is one such row per partition at most, since what
-- comes after them waits. Rows of a term before the last reset say nothing.
CREATE TABLE headwater_private.failing_events (
    namespace_id  int NOT NULL,
    partition     int NOT NULL,
    term          bigint NOT NULL,
    retry_at      timestamptz NOT NULL,
    subscriber_id text COLLATE "C" NOT NULL,
    -- ascending
    sequences     bigint[] NOT NULL,
    first_event   uuid NOT NULL,
    attempts      jsonb NOT NULL,
    PRIMARY KEY (namespace_id, subscriber_id, partition)
);

-- Bundles that are spread over much of the log: all that begin after after_sequence, up to up_to_sequence. Bundles there that are not named end soon after they begin.
-- To find them takes a scan of everything after a position, so whoever is behind keeps what it found for the next page.
CREATE TABLE headwater_private.bundle_scans (
    scan_id         bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    namespace_id    int NOT NULL,
    after_sequence  bigint NOT NULL,
    up_to_sequence  bigint NOT NULL,
    order_keys      text[] COLLATE "C" NOT NULL,
    transaction_ids bigint[] NOT NULL,
    last_sequences  bigint[] NOT NULL,
    PRIMARY KEY (namespace_id, scan_id)
);

-- What a cursor of headwater.next_events says: the move of the checkpoint that settles a bundle. Without what is empty or 0.
--   history          in which the log was read
--   from_…           where the checkpoint is before: the move is made from there, or not at all
--   events, …        counts, as in headwater.advance
--   ahead            events of the bundle behind to_position: they are noted in settled_ahead
--   follows          the note of the bundle before, by its first sequence, if it left one: bundles are settled in order
--   passes           notes of this page, by their first sequences, that to_position passes
--   parks            events whose key is parked: they become dead letters
--   tidy             there are notes of others that may be deleted
--   letter           not a move: the dead letter that was delivered again
CREATE TYPE headwater_private.settlement AS (
    history       uuid,
    from_position bigint,
    from_ledger   bigint[],
    to_position   bigint,
    ledger        bigint[],
    events        bigint,
    event_sum     numeric,
    late          bigint,
    late_sum      numeric,
    last_event_id uuid,
    ahead         bigint[],
    follows       bigint,
    passes        bigint[],
    parks         bigint[],
    tidy          boolean,
    letter        bigint
);
