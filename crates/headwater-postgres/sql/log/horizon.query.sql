-- Returns how far the log is settled and in which history, if the server is in the given history.
SELECT horizon, head, (SELECT headwater.begin_history()) AS history FROM headwater.horizon($1) WHERE headwater.require_history($2)
