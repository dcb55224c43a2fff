-- Several claims in one call, and checkpoints without checks.
-- Frozen once shipped.

-- They have one parameter more, or answer more.
DROP FUNCTION IF EXISTS headwater.claim(text, text, int, interval, text[], text, int, bigint, uuid[]);
DROP FUNCTION IF EXISTS headwater.claim_matching(text, text, int, interval, text[], text, int, uuid[]);
DROP FUNCTION IF EXISTS headwater.claim_run(text, text, int, interval, text, int, uuid[]);

-- Their texts are parsed anew by every statement that changes a row, which took more time than the rest of a checkpoint. Functions check what
-- comes in.
ALTER TABLE headwater.subscribers
    DROP CONSTRAINT subscribers_audit_ledger_check,
    DROP CONSTRAINT subscribers_check,
    DROP CONSTRAINT subscribers_check1,
    DROP CONSTRAINT subscribers_check2,
    DROP CONSTRAINT subscribers_mode_check,
    DROP CONSTRAINT subscribers_partition_check,
    DROP CONSTRAINT subscribers_partitions_check,
    DROP CONSTRAINT subscribers_pending_gaps_check,
    DROP CONSTRAINT subscribers_position_check,
    DROP CONSTRAINT subscribers_resize_to_check,
    DROP CONSTRAINT subscribers_subscriber_id_check;
