-- Lets the server end this transaction's session when it has been idle for so many milliseconds, and marks the transaction, for still_handling.sql.
SELECT set_config('idle_in_transaction_session_timeout', $1, true), set_config('headwater.handling', 'on', true)
