-- The next rows to import, by the columns that order them. What stands in braces is put in by src/import/source.rs: identifiers and constants, quoted.
SELECT {id}::text AS id, {event_type} AS event_type, {data} AS data, {stream} AS stream_id, {version} AS version, {time} AS created_at, {key} AS key,
       {actor} AS actor_id, {correlation} AS correlation_id, {causation} AS causation_id, {metadata} AS metadata, ARRAY[{cursor}] AS cursor
  FROM {from}
 WHERE {after}
 ORDER BY {order}
 LIMIT {limit}
