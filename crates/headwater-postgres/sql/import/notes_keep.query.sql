-- Keeps everybody else from the notes of a table until the transaction ends, so that they can be
-- dropped.
LOCK TABLE {notes} IN ACCESS EXCLUSIVE MODE
