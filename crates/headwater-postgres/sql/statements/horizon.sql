-- How far the log is settled, in a history only, and in which.
SELECT horizon, head, (SELECT headwater.begin_history()) AS history FROM headwater.horizon($1) WHERE headwater.require_history($2)
