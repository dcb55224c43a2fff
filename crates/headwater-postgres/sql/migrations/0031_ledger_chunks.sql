-- Long ledgers in parts, and who the writers are.
-- Frozen once shipped.

-- A transaction that emits while others do leaves a hole for each of its events, and the ledger of a subscriber that has passed them a range for each. To rewrite
-- all of it with each checkpoint would cost more than the events do. So subscribers.pending_gaps has the end of the ledger, and what is before that stands here, in
-- rows of some hundred ranges: a checkpoint writes those that have changed. Ledgers of most subscribers are short, and have none of these rows.
CREATE TABLE headwater_private.ledger_chunks (
    namespace_id   int NOT NULL,
    partition      int NOT NULL,
    -- names it: no range of it begins below
    first_sequence bigint NOT NULL,
    -- how many sequences its ranges have
    size           bigint NOT NULL,
    subscriber_id  text COLLATE "C" NOT NULL,
    -- first, last, first, last, … as in subscribers.pending_gaps
    ranges         bigint[] NOT NULL CHECK (cardinality(ranges) % 2 = 0 AND cardinality(ranges) > 0),
    PRIMARY KEY (namespace_id, subscriber_id, partition, first_sequence)
);

-- They answer more now.
DROP FUNCTION IF EXISTS headwater.writers(int, headwater.caller);
DROP FUNCTION IF EXISTS headwater.long_transactions(int, bigint, bigint, bigint, timestamptz, timestamptz, headwater.caller);
