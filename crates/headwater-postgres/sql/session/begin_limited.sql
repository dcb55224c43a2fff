-- Begins a transaction of a handler: the server ends its session when it has been idle for $1 milliseconds, and a statement that takes as long, as one that waits for
-- a lock, unless it may only take less anyway. Marks it, for still_handling.sql. A simple query, in one round trip: it has no parameters, the number is put in.
BEGIN;
SELECT set_config('idle_in_transaction_session_timeout', '$1', true), set_config('headwater.handling', 'on', true),
       set_config('statement_timeout', CASE WHEN s.own > 0 AND s.own < $1 THEN s.own::text ELSE '$1' END, true)
  FROM (SELECT (extract(epoch FROM current_setting('statement_timeout')::interval) * 1000)::int AS own) s
