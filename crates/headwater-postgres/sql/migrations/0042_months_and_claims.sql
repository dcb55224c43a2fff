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
-- Not the number itself: for a statement that looks up a claim by its number, a plan that was made
-- while there were few claims would search all of this index.
CREATE INDEX claims_by_visibility ON headwater_private.claims ((subscriber_id || '/' || namespace_id::text), visible_at, (number + 0));
DROP FUNCTION IF EXISTS headwater_private.look_at(text, headwater_private.queue_state, timestamptz, interval);
DROP FUNCTION IF EXISTS headwater_private.look_by(int, text, bigint, boolean, headwater_private.queue_state, timestamptz, timestamptz);
DROP FUNCTION IF EXISTS headwater_private.look_for(int, bigint, bigint, timestamptz, text[], text[], text[]);
DROP FUNCTION IF EXISTS headwater_private.letters_again(int, headwater_private.subscribers, uuid, int);
DROP FUNCTION IF EXISTS headwater_private.tend_queue(text, headwater_private.claims, bigint, uuid[], boolean, text[], text[], text[], boolean, timestamptz,
                                                     headwater_private.queue_state, int);

-- Monitors add up the rates of all namespaces: no sum may overflow.
UPDATE headwater_private.queue_workers SET rate = 1e9 WHERE rate > 1e9;
ALTER TABLE headwater_private.queue_workers ADD CHECK (rate BETWEEN 0 AND 1e9);

-- A letter is marked as queued only while it is in a claim or a retry, whatever its state.
UPDATE headwater_private.dead_letters d SET queued = false
 WHERE d.queued
   AND NOT EXISTS (SELECT FROM headwater_private.retries r
                    WHERE r.namespace_id = d.namespace_id AND r.subscriber_id = d.subscriber_id AND r.of_letter
                      AND d.global_sequence = ANY (r.sequences))
   AND NOT EXISTS (SELECT FROM headwater_private.claims c
                    WHERE c.namespace_id = d.namespace_id AND c.subscriber_id = d.subscriber_id AND c.of_letter AND NOT c.done
                      AND d.global_sequence = ANY (c.sequences));
