-- Lists what happened at the due times of a schedule.
SELECT * FROM headwater.schedule_history($1, $2, $3)
