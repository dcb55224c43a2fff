-- Reads over several months open one month after the other; what tells about all namespaces joins sets.
-- Frozen once shipped.

DROP FUNCTION IF EXISTS headwater_private.over_months(text, int, timestamptz, timestamptz);
DROP FUNCTION IF EXISTS headwater_private.month_tables(int, bigint, bigint);
DROP FUNCTION IF EXISTS headwater_private.stream_bounds(int, text, bigint, bigint, int, boolean);
DROP VIEW IF EXISTS headwater_private.queue_positions;

-- Where the events of a transaction, or those of one key of it, begin and end in the log.
CREATE TYPE headwater_private.span AS (
    key            text COLLATE "C",
    transaction_id bigint,
    first_sequence bigint,
    last_sequence  bigint
);
