-- Begins a handler's transaction. The server ends the session when it has been idle for $1
-- milliseconds. It also cancels a statement that takes this long, for example because it waits for
-- a lock, unless the session already allows less. The statement marks the transaction for
-- still_handling.sql. It is a simple query, in one round trip: it has no parameters, and the number
-- is put into the text.
BEGIN;
SELECT set_config('idle_in_transaction_session_timeout', '$1', true), set_config('headwater.handling', 'on', true),
       set_config('statement_timeout', CASE WHEN s.own > 0 AND s.own < $1 THEN s.own::text ELSE '$1' END, true)
  FROM (SELECT (extract(epoch FROM current_setting('statement_timeout')::interval) * 1000)::int AS own) s
