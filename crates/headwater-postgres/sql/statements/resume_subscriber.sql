-- Lets a subscriber go on.
SELECT headwater.resume_subscriber($1, $2)
