-- Removes the trigger of a table with its function. Waits for all who have written to the table and
-- are still open; who comes next waits until the transaction ends.
-- Locks: the table, ACCESS EXCLUSIVE.
DROP FUNCTION IF EXISTS {function}() CASCADE
