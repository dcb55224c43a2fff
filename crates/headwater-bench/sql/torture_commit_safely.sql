-- Sets synchronous_commit for all sessions of this database. Ends the sessions that have the old
-- value.
BEGIN;
SET LOCAL synchronous_commit = on;
ALTER DATABASE headwater SET synchronous_commit = $1;
COMMIT;
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend';
