-- headwater_private.unhandled_in(subscriber, leaf)
-- Returns which events of a leaf a subscriber (one of its partitions) is not done with: the first,
-- the last, and an upper bound for their number. The number includes events of other partitions,
-- and of types that the subscriber does not handle. Reads that part of the leaf.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.unhandled_in(subscriber headwater_private.subscribers, leaf text, OUT first bigint, OUT last bigint, OUT events bigint)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    q headwater_private.queue_state;
BEGIN
    IF subscriber.mode <> 'shared' THEN
        EXECUTE format('SELECT min(e.global_sequence), max(e.global_sequence), count(*) FROM headwater_private.%I e
                         WHERE e.namespace_id = $3
                           AND (e.global_sequence > $1
                                OR $2 <> ''{}'' AND headwater_private.ledger_holds($2, ARRAY[e.global_sequence, e.global_sequence]))', leaf)
           INTO first, last, events USING subscriber.position,
                headwater_private.ledger_of(subscriber.namespace_id, subscriber.subscriber_id, subscriber.partition, subscriber.pending_gaps), subscriber.namespace_id;
        RETURN;
    END IF;
    SELECT (n.state).* INTO q FROM headwater_private.queue_states n
     WHERE n.namespace_id = subscriber.namespace_id AND n.subscriber_id = subscriber.subscriber_id;
    EXECUTE format(
        'SELECT min(e.global_sequence), max(e.global_sequence), count(*) FROM headwater_private.%I e
          WHERE e.namespace_id = $4
            AND (e.global_sequence > $1
             OR $2 <> ''{}'' AND headwater_private.ledger_holds($2, ARRAY[e.global_sequence, e.global_sequence])
             OR EXISTS (SELECT FROM unnest($3) o WHERE o.event_type = e.event_type AND e.global_sequence BETWEEN o.first_sequence AND o.last_sequence)
             OR EXISTS (SELECT FROM headwater_private.claims c
                         WHERE c.namespace_id = $4 AND c.subscriber_id = $5 AND NOT c.done AND NOT c.of_letter
                           AND e.global_sequence BETWEEN c.first_sequence AND c.last_sequence
                           AND coalesce(e.global_sequence = ANY (c.sequences), c.event_types IS NULL OR e.event_type = ANY (c.event_types)))
             OR EXISTS (SELECT FROM headwater_private.retries r
                         WHERE r.namespace_id = $4 AND r.subscriber_id = $5 AND NOT r.of_letter AND e.global_sequence = ANY (r.sequences)))', leaf)
       INTO first, last, events
      USING q.frontier, q.gaps, q.open,
            subscriber.namespace_id, subscriber.subscriber_id;
END
$$;
