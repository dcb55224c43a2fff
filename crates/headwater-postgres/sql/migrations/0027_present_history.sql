-- What identifies the server's past, as a view: what asks for it in a statement of its own looks at one row, and calls nothing.
-- Frozen once shipped.

-- The path of the table names the database, which CREATE DATABASE ... TEMPLATE makes another one.
CREATE VIEW headwater_private.present_history AS
SELECT md5(concat_ws(' ', h.token, pg_relation_filepath('headwater_private.histories'),
                     (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint))::uuid AS history
  FROM headwater_private.histories h ORDER BY h.number DESC LIMIT 1;
