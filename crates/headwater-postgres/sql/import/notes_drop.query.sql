-- Removes the notes of a table.
DROP TABLE IF EXISTS {notes}
