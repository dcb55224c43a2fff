-- The processes of the server with which a crash may begin: sessions, and processes that write for
-- all. Without the session that asks.
SELECT pid, coalesce(nullif(application_name, ''), backend_type) FROM pg_stat_activity
 WHERE pid <> pg_backend_pid()
   AND backend_type IN ('client backend', 'walsender', 'walwriter', 'checkpointer', 'background writer') ORDER BY pid
