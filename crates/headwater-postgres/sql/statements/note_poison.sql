-- Notes rows of the log that are no events.
SELECT headwater.note_poison($1, $2, $3)
