-- headwater_private.bury_events(namespace_id, subscriber_id, partition, term, sequences, state,
-- parks_key, attempts)
-- Makes events of the log dead letters of a partition, only in its owner's term. Events that the
-- log no longer has are left out.
-- Raises: WH011, WH016. Locks: the rows that it writes. Writes: dead letters, the subscriber.
CREATE OR REPLACE FUNCTION headwater_private.bury_events(
    namespace_id int, subscriber_id text, partition int, term bigint, sequences bigint[], state text, parks_key boolean, attempts jsonb
) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    node   text;
    error  text := coalesce(attempts #>> '{-1,errors,0}', '');
    fenced bigint;
BEGIN
    SELECT coalesce(s.owner_node, '') INTO node FROM headwater_private.subscribers s
     WHERE s.namespace_id = bury_events.namespace_id AND s.subscriber_id = bury_events.subscriber_id AND s.partition = bury_events.partition;
    SELECT headwater.bury(bury_events.namespace_id, bury_events.subscriber_id, bury_events.term,
               coalesce(array_agg(e.global_sequence), '{}'), array_agg(e.event_id), array_agg(e.event_type),
               array_agg(coalesce(e.key, e.stream_id, e.event_id::text)), array_agg(bury_events.state), array_agg(bury_events.parks_key),
               array_agg(error), array_agg(node), array_agg(bury_events.attempts::text), array_agg(e.event::text), bury_events.partition)
      INTO fenced
      FROM (SELECT p.*, headwater_private.event_json(p) AS event
              FROM headwater_private.visible_in(bury_events.namespace_id,
                       ARRAY(SELECT q FROM unnest(bury_events.sequences || bury_events.sequences) q ORDER BY q), cardinality(bury_events.sequences)) p) e;
    IF fenced IS DISTINCT FROM 1 THEN
        PERFORM headwater_private.partition_lost(bury_events.subscriber_id, bury_events.partition, bury_events.term,
            'it is not owned in this term any more');
    END IF;
END
$$;
