-- Lets the server end this transaction's session when it has been idle for so many milliseconds, and a statement that takes as long, as one that waits for a
-- lock, unless it may only take less anyway. Marks the transaction, for still_handling.sql.
SELECT set_config('idle_in_transaction_session_timeout', $1, true), set_config('headwater.handling', 'on', true),
       set_config('statement_timeout', CASE WHEN s.own > 0 AND s.own < $1::int THEN s.own::text ELSE $1 END, true)
  FROM (SELECT (extract(epoch FROM current_setting('statement_timeout')::interval) * 1000)::int AS own) s
