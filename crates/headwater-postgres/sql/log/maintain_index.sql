-- headwater.maintain_index(namespace, max_rows)
-- Public: in docs/sql.md.
-- Works on the type index of a namespace, up to max_rows at a time. It adds events from before the
-- index was switched on, deletes what was trimmed, and deletes everything after the index was
-- switched off. With a NULL namespace it works on any namespace that has such work; only the owner
-- may ask for that. Returns how many rows it added or deleted; 0: nothing is left to do, or
-- somebody else is doing it. Nodes call it, and so does `headwater months maintain`.
-- Raises: WH001, WH002, WH006, WH015. Locks: the row of index_states. Writes: the index.
CREATE OR REPLACE FUNCTION headwater.maintain_index(
    namespace text DEFAULT NULL, max_rows int DEFAULT 10000, caller headwater.caller DEFAULT current_user
) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    only_one int;
    work     headwater_private.index_states;
    gone_to  bigint;
    mixed_to bigint;
    number   bigint := 0;
    part      bigint;
    last     bigint;
    type     text;
BEGIN
    IF maintain_index.namespace IS NULL THEN
        PERFORM headwater_private.require_owner(caller);
    ELSE
        only_one := (headwater_private.open_namespace(maintain_index.namespace, caller, NULL)).namespace_id;
    END IF;
    IF coalesce(maintain_index.max_rows NOT BETWEEN 1 AND 1000000, true) THEN
        PERFORM headwater_private.fail('WH002', format('invalid max_rows %s', coalesce(maintain_index.max_rows::text, 'NULL')),
            jsonb_build_object('what', 'max_rows', 'value', maintain_index.max_rows), 'max_rows is 1 to 1000000');
    END IF;
    -- Events from before the switch are read with snapshots from after it.
    PERFORM headwater_private.require_proof();
    -- Two sessions that work on the index do not wait for each other.
    FOR work IN SELECT i.* FROM headwater_private.index_states i
                 WHERE i.namespace_id = coalesce(only_one, i.namespace_id)
                   AND (i.state <> 'ready'
                        OR i.swept_to < (SELECT m.high_sequence FROM headwater_private.months m
                                          WHERE m.namespace_id = i.namespace_id AND m.trimmed_at IS NOT NULL ORDER BY m.starts_at DESC LIMIT 1))
                 ORDER BY i.namespace_id FOR UPDATE SKIP LOCKED LOOP
        IF work.state = 'building' THEN
            WITH more AS MATERIALIZED (
                SELECT e.event_type, e.global_sequence
                  FROM headwater_private.events_in(work.namespace_id, work.filled_to + 1, work.fill_to, NULL, maintain_index.max_rows) e
            ), added AS (
                INSERT INTO headwater_private.type_index (namespace_id, event_type, global_sequence)
                SELECT work.namespace_id, m.event_type, m.global_sequence FROM more m
                -- Rows that were there when the index was switched off and have not been deleted
                -- since.
                ON CONFLICT DO NOTHING
            )
            SELECT count(*), max(m.global_sequence) INTO number, last FROM more m;
            UPDATE headwater_private.index_states i
               SET filled_to = coalesce(last, i.fill_to), state = CASE WHEN number < maintain_index.max_rows THEN 'ready' ELSE i.state END
             WHERE i.namespace_id = work.namespace_id;
        ELSIF work.state = 'removing' THEN
            DELETE FROM headwater_private.type_index
             WHERE ctid = ANY (ARRAY(SELECT t.ctid FROM headwater_private.type_index t WHERE t.namespace_id = work.namespace_id
                                      LIMIT maintain_index.max_rows));
            GET DIAGNOSTICS number = ROW_COUNT;
            IF number = 0 THEN
                DELETE FROM headwater_private.index_states i WHERE i.namespace_id = work.namespace_id;
            END IF;
        ELSE
            SELECT n.trimmed_to, (SELECT m.high_sequence FROM headwater_private.months m
                                   WHERE m.namespace_id = n.namespace_id AND m.trimmed_at IS NOT NULL ORDER BY m.starts_at DESC LIMIT 1)
              INTO gone_to, mixed_to
              FROM headwater_private.namespaces n WHERE n.namespace_id = work.namespace_id;
            FOREACH type IN ARRAY headwater_private.indexed_types(work.namespace_id, 2147483647) LOOP
                EXIT WHEN number >= maintain_index.max_rows;
                DELETE FROM headwater_private.type_index
                 WHERE ctid = ANY (ARRAY(SELECT t.ctid FROM headwater_private.type_index t
                                          WHERE t.namespace_id = work.namespace_id AND t.event_type = type AND t.global_sequence <= gone_to
                                          ORDER BY t.global_sequence LIMIT maintain_index.max_rows - number));
                GET DIAGNOSTICS part = ROW_COUNT;
                number := number + part;
                -- Where two months meet, their sequences are mixed. A row whose event does not
                -- exist belongs to a trimmed event.
                DELETE FROM headwater_private.type_index d
                 USING (SELECT ARRAY(SELECT t.global_sequence FROM headwater_private.type_index t
                                      WHERE t.namespace_id = work.namespace_id AND t.event_type = type
                                        AND t.global_sequence > gone_to AND t.global_sequence <= mixed_to
                                      ORDER BY t.global_sequence LIMIT maintain_index.max_rows - number) AS sequences) s
                 WHERE d.namespace_id = work.namespace_id AND d.event_type = type AND d.global_sequence = ANY (s.sequences)
                   AND d.global_sequence NOT IN (SELECT e.global_sequence FROM headwater_private.events_at(work.namespace_id, s.sequences) e);
                GET DIAGNOSTICS part = ROW_COUNT;
                number := number + part;
            END LOOP;
            UPDATE headwater_private.index_states i SET swept_to = mixed_to
             WHERE i.namespace_id = work.namespace_id AND number < maintain_index.max_rows;
        END IF;
        EXIT WHEN number > 0;
    END LOOP;
    RETURN number;
END
$$;
