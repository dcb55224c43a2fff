-- All namespaces, by name.
SELECT namespace, namespace_id, ordering, notify, extract(epoch FROM retention)::float8 AS retention, max_payload_bytes, metadata, created_at, partitions
  FROM headwater.namespaces
 ORDER BY namespace
