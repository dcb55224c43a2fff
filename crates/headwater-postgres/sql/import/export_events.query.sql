-- Returns a page of a namespace's events, as lines.
SELECT e.global_sequence, e.line FROM headwater.export_events($1, $2, $3) e
