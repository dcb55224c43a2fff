-- The sessions of Headwater: those of consumers, including those that follow the WAL, and the
-- producers' own.
SELECT pid, application_name FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid()
   AND (application_name LIKE 'torture-%' OR application_name LIKE 'headwater-cdc %') ORDER BY pid
