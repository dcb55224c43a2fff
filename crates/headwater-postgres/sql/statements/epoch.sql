-- What changes when the server was restarted or replaced.
SELECT pg_postmaster_start_time()::text || ' ' || coalesce(inet_server_addr()::text, '')
