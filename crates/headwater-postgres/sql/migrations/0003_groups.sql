-- Groups: subscribers whose events are shared out by key, over partitions, or as claims.
-- Frozen once shipped.

ALTER TABLE headwater.subscribers
    -- how instances share its events: exclusive has one partition, and so has shared, whose events are claimed
    ADD COLUMN mode text COLLATE "C" NOT NULL DEFAULT 'exclusive' CHECK (mode IN ('exclusive', 'partitioned', 'shared')),
    -- of the group: the same in each of its rows
    ADD COLUMN partitions int NOT NULL DEFAULT 1 CHECK (partitions BETWEEN 1 AND 1024),
    -- the number of partitions that was asked for, and where they begin once all of the present ones have come so far; until it is
    -- known where that is, nobody owns a partition
    ADD COLUMN resize_to int CHECK (resize_to BETWEEN 1 AND 1024),
    ADD COLUMN barrier bigint CHECK (barrier IS NULL OR (barrier >= 0 AND resize_to IS NOT NULL)),
    ADD CHECK (partition < partitions),
    ADD CHECK (mode = 'partitioned' OR (partitions = 1 AND resize_to IS NULL));

-- Instances that wish to own partitions of a group. Each gets its share of them.
CREATE TABLE headwater.members (
    namespace_id  int NOT NULL,
    subscriber_id text COLLATE "C" NOT NULL,
    incarnation   uuid NOT NULL,
    node          text NOT NULL,
    member_until  timestamptz NOT NULL,
    -- its session holds the advisory lock of its incarnation: whoever gets it knows that the session is gone
    locked        boolean NOT NULL,
    PRIMARY KEY (namespace_id, subscriber_id, incarnation)
) WITH (fillfactor = 25);

-- Their signatures change (in a new database there are none yet).
DROP FUNCTION IF EXISTS headwater.register_subscriber(text, text, text, bigint, timestamptz);
DROP FUNCTION IF EXISTS headwater.keep_leases(text, text, uuid, bigint, text[], bigint[], jsonb[], boolean[], boolean);
DROP FUNCTION IF EXISTS headwater.release_leases(text, uuid, text[], boolean[]);
DROP FUNCTION IF EXISTS headwater.subscriber_lock(text, text);
DROP FUNCTION IF EXISTS headwater.redrivable_letters(int, text, int);
DROP FUNCTION IF EXISTS headwater.subscriber_status(text, text);
