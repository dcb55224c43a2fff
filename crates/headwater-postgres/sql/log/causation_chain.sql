-- headwater.causation_chain(namespace_id, event_id, max_events)
-- Returns what led to an event and what it led to: its causes back to the first, the event itself,
-- and all its effects, in log order.
-- An event usually lies in the month of its cause or in a later month. So this walks through the
-- months once for the causes, newest first, and once for the effects, oldest first. In each month
-- it finds everything of the chain that is there at once. After the last month it starts again with
-- the first, until it has passed all months without finding more. As in headwater_private.by_month,
-- it releases each month before it opens the next, and reads all of them in one snapshot.
-- Raises: WH015 if the caller may not read it. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.causation_chain(namespace_id int, event_id uuid, max_events int, caller headwater.caller DEFAULT current_user)
RETURNS SETOF headwater_private.events LANGUAGE plpgsql STABLE SECURITY DEFINER SET enable_seqscan = off SET jit = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- $2 and its causes, and the cause of the first of them, which is not in this table.
    to_causes  CONSTANT text :=
        'WITH RECURSIVE causes AS (
             SELECT e.event_id, e.causation_id FROM %1$s e WHERE %2$s AND e.namespace_id = $1 AND e.event_id = $2
             UNION
             SELECT e.event_id, e.causation_id FROM causes c CROSS JOIN LATERAL (
                 SELECT e.event_id, e.causation_id FROM %1$s e WHERE %2$s AND e.namespace_id = $1 AND e.event_id = c.causation_id) e)
         SELECT array_agg(c.event_id) AS ids,
                (SELECT c.causation_id FROM causes c WHERE NOT EXISTS (SELECT FROM causes o WHERE o.event_id = c.causation_id) LIMIT 1) AS next
           FROM causes c';
    -- The effects of the events in $2, and the effects of those.
    to_effects CONSTANT text :=
        'WITH RECURSIVE effects AS (
             SELECT e.event_id FROM %1$s e WHERE %2$s AND e.namespace_id = $1 AND e.causation_id = ANY ($2)
             UNION
             SELECT e.event_id FROM effects f CROSS JOIN LATERAL (
                 SELECT e.event_id FROM %1$s e WHERE %2$s AND e.namespace_id = $1 AND e.causation_id = f.event_id) e)
         SELECT array_agg(n.event_id) AS ids FROM (SELECT f.event_id FROM effects f EXCEPT SELECT unnest($2)) n';
    tables  text[];
    parts   text[];
    causes  uuid[] := '{}';
    effects uuid[] := ARRAY[causation_chain.event_id];
    wanted  uuid := causation_chain.event_id;
    found   record;
    at      int;
    -- How many tables were read since the last one in which something was found.
    misses  int := 0;
BEGIN
    PERFORM headwater_private.authorize(causation_chain.namespace_id, caller, 'consumer');
    SELECT array_agg(t.name), array_agg(t.condition) INTO tables, parts FROM headwater_private.month_tables(causation_chain.namespace_id) t;
    at := cardinality(tables);
    WHILE wanted IS NOT NULL AND misses < cardinality(tables) LOOP
        BEGIN
            EXECUTE format(to_causes, tables[at], parts[at]) INTO found USING causation_chain.namespace_id, wanted;
            RAISE EXCEPTION USING ERRCODE = 'WH099', MESSAGE = 'read';
        EXCEPTION WHEN SQLSTATE 'WH099' THEN
            NULL;
        END;
        misses := misses + 1;
        IF found.ids IS NOT NULL THEN
            -- Everything of the chain that this table holds was found.
            misses := 1;
            causes := causes || found.ids;
            wanted := CASE WHEN found.next <> ALL (causes) THEN found.next END;
        END IF;
        at := CASE WHEN at > 1 THEN at - 1 ELSE cardinality(tables) END;
    END LOOP;
    at := 1;
    misses := 0;
    WHILE misses < cardinality(tables) LOOP
        BEGIN
            EXECUTE format(to_effects, tables[at], parts[at]) INTO found USING causation_chain.namespace_id, effects;
            RAISE EXCEPTION USING ERRCODE = 'WH099', MESSAGE = 'read';
        EXCEPTION WHEN SQLSTATE 'WH099' THEN
            NULL;
        END;
        misses := misses + 1;
        IF found.ids IS NOT NULL THEN
            misses := 1;
            effects := effects || found.ids;
        END IF;
        at := at % cardinality(tables) + 1;
    END LOOP;
    RETURN QUERY
    SELECT e.* FROM headwater_private.by_month(
               NULL::headwater_private.events, 'SELECT e.* FROM %s e WHERE %s AND e.namespace_id = $1 AND e.event_id = ANY ($12)',
               causation_chain.namespace_id, ids => causes || effects) e
     ORDER BY e.global_sequence LIMIT causation_chain.max_events;
END
$$;
