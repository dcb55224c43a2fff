-- How far the log is settled.
SELECT horizon, head FROM headwater.horizon($1)
