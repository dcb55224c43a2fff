-- Resumes a subscriber.
SELECT headwater.resume_subscriber($1, $2)
