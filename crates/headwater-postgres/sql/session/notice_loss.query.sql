-- Lets the server notice within seconds that this client is gone, even while a statement waits for
-- a lock. Otherwise the session of an abandoned call or a killed process would keep waiting, with
-- everything it has locked, and then do what nobody asks for any more. It needs PostgreSQL 14 or
-- later.
SET client_connection_check_interval = '2s'
