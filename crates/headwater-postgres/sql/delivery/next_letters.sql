-- headwater_private.next_letters(namespace_id, sub, history, max_events)
-- Returns the dead letters of a partition that are to be delivered again now, as rows of
-- headwater.next_events: the first letter of each key, each with its own cursor.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.next_letters(namespace_id int, sub headwater_private.subscribers, history uuid, max_events int)
RETURNS TABLE (cursor text, attempt int, global_sequence bigint, event_id uuid, event_type text, data jsonb, key text, stream_id text, stream_version bigint, actor_id text,
               correlation_id uuid, causation_id uuid, headers jsonb, schema_version int, created_at timestamptz, recorded_at timestamptz, transaction_id bigint)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO' AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT jsonb_build_object('history', next_letters.history, 'letter', l.global_sequence)::text, jsonb_array_length(l.attempts) + 1,
           l.global_sequence, l.event_id, l.event_type, coalesce(l.event -> 'data', 'null'), l.event ->> 'key', l.event ->> 'stream_id',
           (l.event ->> 'stream_version')::bigint, l.event ->> 'actor_id', (l.event ->> 'correlation_id')::uuid, (l.event ->> 'causation_id')::uuid,
           l.event -> 'headers', coalesce((l.event ->> 'schema_version')::int, 1), (l.event ->> 'created_at')::timestamptz, (l.event ->> 'recorded_at')::timestamptz,
           (l.event ->> 'transaction_id')::bigint
      FROM (SELECT DISTINCT ON (r.order_key) r.*
              FROM headwater_private.redrivable_letters(next_letters.namespace_id, sub.subscriber_id, next_letters.max_events, sub.partition, sub.partitions) r
             ORDER BY r.order_key, r.global_sequence) l
     ORDER BY l.global_sequence;
END
$$;
