-- Whether the connection answers.
SELECT 1
