-- Lists the next due times of a cron expression, as the clocks of a time zone show them.
SELECT due_at, local_time FROM headwater.next_runs($1, $2, $3, $4)
