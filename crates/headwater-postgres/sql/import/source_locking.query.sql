-- For a transaction that locks a table to which others write: they queue behind it while it waits,
-- and wait while it is idle.
SET LOCAL lock_timeout = '500ms';
SET LOCAL idle_in_transaction_session_timeout = '10s'
