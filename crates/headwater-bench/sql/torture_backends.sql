-- The sessions of Headwater: of consumers, those by which they follow the WAL, and of the producers' own.
SELECT pid, application_name FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid()
   AND (application_name LIKE 'torture-%' OR application_name LIKE 'headwater-cdc %') ORDER BY pid
