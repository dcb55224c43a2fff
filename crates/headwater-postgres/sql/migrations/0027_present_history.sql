-- What identifies the server's past, as a view: a statement that asks for it looks at one row, and calls nothing.
-- Frozen once shipped.

-- Where and since when the server ran that made the token. The path of the table names the database.
ALTER TABLE headwater_private.histories ADD COLUMN path text COLLATE "C";
ALTER TABLE headwater_private.histories ADD COLUMN started_at timestamptz;

CREATE VIEW headwater_private.present_history AS
SELECT CASE WHEN h.started_at = pg_postmaster_start_time() AND h.path = pg_relation_filepath('headwater_private.histories')
            THEN h.token END AS history
  FROM headwater_private.histories h ORDER BY h.number DESC LIMIT 1;
