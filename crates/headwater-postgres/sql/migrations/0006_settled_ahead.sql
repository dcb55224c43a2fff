-- Groups of events that were settled ahead of their subscriber's checkpoint.
-- Frozen once shipped.

-- One row a group, written in the transaction with its effects, where a batch has so many groups that to rewrite the ledger for each would cost more than
-- they do. Whoever takes over does not handle these events again. When the checkpoint has passed all of a group, its row says nothing any more, and goes.
CREATE TABLE headwater.settled_ahead (
    namespace_id   int NOT NULL,
    partition      int NOT NULL,
    first_sequence bigint NOT NULL,
    subscriber_id  text COLLATE "C" NOT NULL,
    -- ascending
    sequences      bigint[] NOT NULL,
    PRIMARY KEY (namespace_id, subscriber_id, partition, first_sequence)
);
