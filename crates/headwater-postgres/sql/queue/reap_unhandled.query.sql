-- Settles events that nobody handles.
SELECT letters, settled FROM headwater.reap_unhandled($1, pg_catalog.make_interval(secs => $2), $3, $4)
