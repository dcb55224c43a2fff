-- Begins a transaction whose session the server ends when it has been idle in it for so many milliseconds. The number is written behind this: a
-- simple query, of two statements in one round trip, has no parameters.
BEGIN; SET LOCAL idle_in_transaction_session_timeout =
