-- Lets the server end this transaction's session when it has been idle for so many milliseconds.
SELECT set_config('idle_in_transaction_session_timeout', $1, true)
