-- headwater_private.require_in_log(namespace_id, sequence)
-- Refuses a position, a gap or a claim that lies beyond the head of the log. A writer cannot have
-- read it in this log, and would skip events that are yet to come.
-- Raises: WH016. Locks: the sequence, as nextval does. Writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.require_in_log(namespace_id int, sequence bigint)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    head bigint;
BEGIN
    SELECT CASE WHEN n.sequence IS NULL THEN headwater_private.counted(n.namespace_id) ELSE pg_sequence_last_value(n.sequence) END INTO head
      FROM headwater_private.namespaces n WHERE n.namespace_id = require_in_log.namespace_id;
    IF require_in_log.sequence NOT BETWEEN 0 AND head THEN
        PERFORM headwater_private.fail('WH016', format('sequence %s is not in the log, whose head is %s', require_in_log.sequence, head),
            jsonb_build_object('sequence', require_in_log.sequence, 'head', head),
            'read the log of this server again: what was read from another one, or before it was restored, counts no more');
    END IF;
END
$$;
