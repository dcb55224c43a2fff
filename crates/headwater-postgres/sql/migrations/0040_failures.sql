-- Several events of a partition may have failed and wait for their next attempt: each keeps its
-- attempts.
-- Frozen once shipped.

ALTER TABLE headwater_private.failing_events DROP CONSTRAINT failing_events_pkey;
ALTER TABLE headwater_private.failing_events ADD PRIMARY KEY (namespace_id, subscriber_id, partition, first_event);
