-- What was handled, and how much of it twice.
SELECT count(*), count(*) - count(DISTINCT message_id) FROM handled
