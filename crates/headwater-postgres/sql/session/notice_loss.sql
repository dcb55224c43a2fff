-- Lets the server notice within seconds that this client is gone, also while a statement waits for a lock: else the session of a call that was given up, or of a
-- process that was killed, would wait on, with what it has locked, and then do what nobody asks for any more. From PostgreSQL 14 on.
SET client_connection_check_interval = '2s'
