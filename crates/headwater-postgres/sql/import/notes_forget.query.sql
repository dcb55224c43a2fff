-- Deletes the notes of rows that were imported.
DELETE FROM {notes} WHERE note = ANY ($1)
