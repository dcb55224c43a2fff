-- Renames a namespace.
SELECT namespace, namespace_id, ordering, notify, extract(epoch FROM retention)::float8 AS retention, max_payload_bytes, metadata, created_at, months_made_by, storage, index,
       index_state
  FROM headwater.rename_namespace($1, $2, $3)
