-- Gives up on messages that nobody handles.
SELECT headwater.reap_unhandled($1, make_interval(secs => $2), $3)
