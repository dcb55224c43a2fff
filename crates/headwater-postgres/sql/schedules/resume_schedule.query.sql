-- Resumes a schedule.
SELECT headwater.resume_schedule($1, $2)
