-- Returns what following the WAL needs from the server and the role.
SELECT pg_catalog.current_setting('wal_level') AS wal_level,
       pg_catalog.current_setting('max_replication_slots')::int AS max_slots,
       (SELECT pg_catalog.count(*) FROM pg_replication_slots)::int AS slots,
       pg_catalog.current_setting('max_wal_senders')::int AS max_senders,
       (SELECT pg_catalog.count(*) FROM pg_stat_replication)::int AS senders,
       pg_catalog.pg_size_bytes(pg_catalog.current_setting('max_slot_wal_keep_size')) AS max_slot_wal_keep_bytes,
       pg_catalog.pg_is_in_recovery() AS is_standby,
       current_user::text AS role,
       (SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user) AS may_replicate,
       -- The entry point publishes as the owner of the schema. Where namespaces share their months,
       -- only the owner may call it.
       coalesce((SELECT pg_catalog.has_database_privilege(n.nspowner, pg_catalog.current_database(), 'CREATE')
                        AND (pg_catalog.pg_has_role(n.nspowner, 'USAGE')
                             OR NOT EXISTS (SELECT FROM headwater.list_namespaces() s
                                             WHERE s.storage = 'shared'
                                               AND NOT EXISTS (SELECT FROM pg_publication p WHERE p.pubname = 'headwater_n' || s.namespace_id::text)))
                   FROM pg_catalog.pg_namespace n WHERE n.nspname = 'headwater'), false)
           AS may_publish,
       ARRAY(SELECT n.namespace FROM headwater.list_namespaces() n
              WHERE NOT EXISTS (SELECT FROM pg_publication p WHERE p.pubname = 'headwater_n' || n.namespace_id::text)
              ORDER BY 1) AS not_published
