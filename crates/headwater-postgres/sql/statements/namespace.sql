-- The settings of a namespace.
SELECT namespace, namespace_id, ordering, notify, extract(epoch FROM retention)::float8 AS retention, max_payload_bytes, metadata, created_at, partitions
  FROM headwater.namespace_row($1)
