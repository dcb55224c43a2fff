-- headwater.append_event_log(p_namespace, p_event_type, p_payload, p_producer_node_id,
-- p_scheduled_task_id, p_metadata)
-- Public: in docs/sql.md.
-- headwater.emit for callers who know the event log by this name. The producer of the event and the
-- task go into its headers, beside the metadata. Headers are text: a value of the metadata that is
-- not text is written as JSON, and also stands with its type in the header "metadata", a JSON
-- object. Returns the global_sequence.
-- Raises: see emit; WH002 if the metadata is not an object. Locks, writes: see emit.
CREATE OR REPLACE FUNCTION headwater.append_event_log(
    p_namespace         text,
    p_event_type        text,
    p_payload           jsonb,
    p_producer_node_id  text,
    p_scheduled_task_id uuid DEFAULT NULL,
    p_metadata          jsonb DEFAULT NULL,
    caller headwater.caller DEFAULT current_user
) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM headwater_private.open_namespace(p_namespace, caller, 'producer');
    IF jsonb_typeof(p_metadata) NOT IN ('object', 'null') THEN
        PERFORM headwater_private.fail('WH002', format('invalid p_metadata %s', left(p_metadata::text, 80)),
            jsonb_build_object('what', 'p_metadata', 'value', left(p_metadata::text, 80)), 'p_metadata is a JSON object');
    END IF;
    RETURN headwater.emit(p_namespace, p_event_type, p_payload, headers =>
        coalesce((SELECT jsonb_object_agg(m.key, p_metadata ->> m.key)
                    FROM jsonb_object_keys(nullif(p_metadata, 'null')) AS m(key) WHERE p_metadata ->> m.key IS NOT NULL), '{}')
        || jsonb_strip_nulls(jsonb_build_object(
               'producer_node_id', p_producer_node_id, 'scheduled_task_id', p_scheduled_task_id,
               'metadata', (SELECT jsonb_object_agg(m.key, m.value)::text FROM jsonb_each(nullif(p_metadata, 'null')) m
                             WHERE jsonb_typeof(m.value) <> 'string'))));
END
$$;
