-- Checks that the connection answers.
SELECT 1
