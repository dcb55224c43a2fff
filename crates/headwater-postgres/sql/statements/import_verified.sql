-- Notes that an import was found to be complete.
UPDATE headwater.imports i SET verified_at = clock_timestamp() WHERE i.namespace_id = $1 AND i.name = $2
