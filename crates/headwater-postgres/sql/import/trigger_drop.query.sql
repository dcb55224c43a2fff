-- Removes the trigger of a table with its function. It waits for all open transactions that have
-- written to the table. Later writers wait until the transaction ends.
-- Locks: the table, ACCESS EXCLUSIVE.
DROP FUNCTION IF EXISTS {function}() CASCADE
