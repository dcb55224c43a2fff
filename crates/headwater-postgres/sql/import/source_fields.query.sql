-- What an event is made of, from a row of the source.
       {id}::text AS id, {event_type} AS event_type, {data} AS data, {stream} AS stream_id, {version} AS version, {time} AS created_at, {key} AS key,
       {actor} AS actor_id, {correlation} AS correlation_id, {causation} AS causation_id, {metadata} AS metadata, {sequence} AS sequence,
       ARRAY[{cursor}] AS cursor
