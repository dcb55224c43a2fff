-- Notes of which trimmed months the leaf is gone.
SELECT headwater.note_dropped($1)
