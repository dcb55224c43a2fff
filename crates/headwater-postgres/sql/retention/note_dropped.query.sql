-- Records which trimmed months have lost their leaf.
SELECT headwater.note_dropped($1)
