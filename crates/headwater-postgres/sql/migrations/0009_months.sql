-- Months: what is known of the partitions of the log whose month is over, and what retention did to them.
-- Frozen once shipped.

-- One row a month that is sealed: nothing can be added to it any more. It outlives the month's leaf.
CREATE TABLE headwater.months (
    namespace_id   int NOT NULL REFERENCES headwater.namespaces,
    starts_at      timestamptz NOT NULL,
    ends_at        timestamptz NOT NULL,
    leaf           text NOT NULL,
    -- of its events; NULL: it has none
    first_sequence bigint,
    last_sequence  bigint,
    -- the highest sequence of this month and all before: whoever reads after it needs none of them
    high_sequence  bigint NOT NULL,
    -- every event at or below is in this month or in one before: whoever reads up to it needs no later one
    complete_to    bigint NOT NULL,
    -- of its events, how many lie after the last month's complete_to and up to its own: 100,000 stands for any more
    page_events    int NOT NULL,
    sealed_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- number and sum of its sequences, counted before it is trimmed
    events         bigint,
    sequence_sum   numeric,
    -- its events are none of the log's any more; the leaf goes as soon as nobody uses it
    trimmed_at     timestamptz,
    dropped_at     timestamptz,
    PRIMARY KEY (namespace_id, starts_at)
);

-- What subscribers had not handled when it was trimmed all the same.
CREATE TABLE headwater.losses (
    namespace_id   int NOT NULL,
    subscriber_id  text COLLATE "C" NOT NULL,
    partition      int NOT NULL,
    first_sequence bigint NOT NULL,
    last_sequence  bigint NOT NULL,
    -- at most so many: of all partitions and types
    events         bigint NOT NULL,
    lost_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (namespace_id, subscriber_id, partition, last_sequence)
);

ALTER TABLE headwater.namespaces
    -- events recorded before this are trimmed
    ADD COLUMN kept_from timestamptz NOT NULL DEFAULT '-infinity',
    -- everything at or below is trimmed; what is kept lies above
    ADD COLUMN trimmed_to bigint NOT NULL DEFAULT 0,
    -- who makes the partitions of coming months
    ADD COLUMN partitions text NOT NULL DEFAULT 'built-in' CHECK (partitions IN ('built-in', 'pg_partman'));

-- Their signatures change (in a new database there are none yet).
DROP FUNCTION IF EXISTS headwater.create_namespace(text, text, boolean, interval, int, jsonb);
DROP FUNCTION IF EXISTS headwater.check_namespace_settings(text, interval, int, jsonb);
DROP FUNCTION IF EXISTS headwater.log_page(int, bigint, bigint, int, text[], text, text);
DROP FUNCTION IF EXISTS headwater.log_page_back(int, bigint, bigint, int, text[], text, text);
