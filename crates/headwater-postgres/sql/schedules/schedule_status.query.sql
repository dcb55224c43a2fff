-- Lists the schedules of a namespace, or one of them.
SELECT * FROM headwater.schedule_status($1, $2)
