-- Creates a namespace, or returns the existing one.
SELECT namespace, namespace_id, ordering, notify, extract(epoch FROM retention)::float8 AS retention, max_payload_bytes, metadata, created_at, months_made_by, storage, index,
       index_state
  FROM headwater.create_namespace($1, $2, $3, pg_catalog.make_interval(secs => $4), $5, $6, $7, $8, $9)
