-- Records rows of the log that are poison.
SELECT headwater.note_poison($1, $2, $3)
