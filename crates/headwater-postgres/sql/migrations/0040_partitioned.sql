-- Partitioned subscribers are found without a look at all others (functions/subscriber_lags.sql). None of these columns changes
-- when progress is written, so that does not touch the index.
-- Frozen once shipped.

CREATE INDEX subscribers_partitioned ON headwater_private.subscribers (namespace_id, subscriber_id) WHERE partitions > 1;
