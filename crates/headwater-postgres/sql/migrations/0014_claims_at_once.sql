-- Several claims in one call, and checkpoints without checks.
-- Frozen once shipped.

-- They have one parameter more, or answer more.
DROP FUNCTION IF EXISTS headwater.claim(text, text, int, interval, text[], text, int, bigint, uuid[]);
DROP FUNCTION IF EXISTS headwater.claim_matching(text, text, int, interval, text[], text, int, uuid[]);
DROP FUNCTION IF EXISTS headwater.claim_run(text, text, int, interval, text, int, uuid[]);
DROP FUNCTION IF EXISTS headwater.newest_state(int, text);

-- All events behind the frontier, up to this one, were seen without a hole: they are claimed without a look at the log. NULL: not known.
ALTER TYPE headwater.queue_state ADD ATTRIBUTE known bigint;

-- The server parses the texts of checks anew for every statement that changes a row, which took more time than the rest of a checkpoint. Those of columns that a
-- checkpoint leaves alone are asked for when these change.
ALTER TABLE headwater.subscribers
    DROP CONSTRAINT subscribers_audit_ledger_check,
    DROP CONSTRAINT subscribers_check,
    DROP CONSTRAINT subscribers_check1,
    DROP CONSTRAINT subscribers_check2,
    DROP CONSTRAINT subscribers_mode_check,
    DROP CONSTRAINT subscribers_partition_check,
    DROP CONSTRAINT subscribers_partitions_check,
    DROP CONSTRAINT subscribers_resize_to_check,
    DROP CONSTRAINT subscribers_subscriber_id_check;
-- Its text is with the functions.
CREATE FUNCTION headwater.check_subscriber() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
-- AFTER: a trigger before would lock the row a second time for every change, whichever columns it is for.
CREATE TRIGGER check_subscriber
    AFTER INSERT OR UPDATE OF subscriber_id, partition, audit_ledger, mode, partitions, resize_to, barrier
    ON headwater.subscribers FOR EACH ROW EXECUTE FUNCTION headwater.check_subscriber();
