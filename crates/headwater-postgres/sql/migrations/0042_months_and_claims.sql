-- A partition is a slice of a subscriber's events: the tables of the log are months. And claims that
-- expire at the same time are found in the order in which they were made.
-- Frozen once shipped.

ALTER TABLE headwater_private.namespaces RENAME COLUMN partitions TO months_made_by;
ALTER TABLE headwater_private.namespaces RENAME CONSTRAINT namespaces_partitions_check TO namespaces_months_made_by_check;
ALTER TYPE headwater.namespace RENAME ATTRIBUTE partitions TO months_made_by;

-- Their parameters or columns have other names, or they are called otherwise.
DROP FUNCTION IF EXISTS headwater.create_namespace(text, text, boolean, interval, int, jsonb, text, text, text, headwater.caller);
DROP FUNCTION IF EXISTS headwater.list_namespaces(text, headwater.caller);
DROP FUNCTION IF EXISTS headwater.partitions(text, timestamptz, headwater.caller);
DROP FUNCTION IF EXISTS headwater_private.check_namespace_settings(text, interval, int, jsonb, text, text);

DROP INDEX headwater_private.claims_by_visibility;
CREATE INDEX claims_by_visibility ON headwater_private.claims ((subscriber_id || '/' || namespace_id::text), visible_at, number);
DROP FUNCTION IF EXISTS headwater_private.look_at(text, headwater_private.queue_state, timestamptz, interval);
DROP FUNCTION IF EXISTS headwater_private.look_by(int, text, bigint, boolean, headwater_private.queue_state, timestamptz, timestamptz);
DROP FUNCTION IF EXISTS headwater_private.look_for(int, bigint, bigint, timestamptz, text[], text[], text[]);
DROP FUNCTION IF EXISTS headwater_private.letters_again(int, headwater_private.subscribers, uuid, int);
