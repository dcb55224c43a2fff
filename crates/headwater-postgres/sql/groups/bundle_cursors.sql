-- headwater_private.bundle_cursors(sub, history, seen, reach, passed, ledger, late, late_sum,
-- parks, tidy, sequences, bundles, event_ids)
-- Returns the cursors that settle the bundles of a page, one after the other. Each cursor moves the
-- checkpoint from where the cursor before it left it: over everything that is settled by then, and
-- not over what waits in a later bundle. Events of a bundle beyond that are recorded as settled
-- ahead. Without bundles there is one cursor, over the whole page.
--   sequences, bundles, event_ids   the events: by bundle, then in order
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.bundle_cursors(
    sub headwater_private.subscribers, history uuid, seen bigint[], reach bigint, passed bigint[], ledger bigint[], late bigint, late_sum numeric,
    parks bigint[], tidy boolean, sequences bigint[], bundles int[], event_ids uuid[]
) RETURNS text[] LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    cursors text[] := '{}';
    count   int := greatest(bundles[cardinality(bundles)], 1);
    undone  bigint[];
    settles headwater_private.settlement;
    members bigint[];
    counted int := 0;
    gaps    int := 0;
    began   int := 1;
    ended   int := 0;
    -- Notes of the earlier bundles, and where each note ends.
    noted   bigint[] := '{}';
    ends    bigint[] := '{}';
BEGIN
    settles.history := bundle_cursors.history;
    settles.to_position := sub.position;
    settles.from_ledger := sub.pending_gaps;
    settles.ledger := bundle_cursors.ledger;
    settles.late := bundle_cursors.late;
    settles.late_sum := bundle_cursors.late_sum;
    settles.parks := nullif(bundle_cursors.parks, '{}');
    -- For each bundle, the first event ahead of the position in the bundles after it.
    SELECT array_agg(u.undone ORDER BY u.bundle) INTO undone
      FROM (SELECT b.bundle, min(min(b.sequence) FILTER (WHERE b.sequence > sub.position))
                                 OVER (ORDER BY b.bundle ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS undone
              FROM unnest(sequences, bundles) AS b(sequence, bundle) GROUP BY b.bundle) u;
    FOR bundle IN 1 .. count LOOP
        WHILE bundles[ended + 1] = bundle LOOP
            ended := ended + 1;
        END LOOP;
        members := sequences[began:ended];
        began := ended + 1;
        settles.from_position := settles.to_position;
        settles.to_position := least(reach, undone[bundle] - 1);
        settles.last_event_id := event_ids[ended];
        IF members[1] <= sub.position THEN
            settles.ledger := headwater_private.ledger_without(settles.ledger, members);
            SELECT settles.late + count(*), settles.late_sum + coalesce(sum(m), 0) INTO settles.late, settles.late_sum
              FROM unnest(members) m WHERE m <= sub.position;
        END IF;
        IF bundle = count THEN
            SELECT nullif(count(*), 0), sum(s) INTO settles.events, settles.event_sum FROM unnest(seen[counted + 1:]) s;
        ELSE
            settles.events := 0;
            settles.event_sum := 0;
            WHILE seen[counted + 1] <= settles.to_position LOOP
                counted := counted + 1;
                settles.events := settles.events + 1;
                settles.event_sum := settles.event_sum + seen[counted];
            END LOOP;
        END IF;
        WHILE passed[gaps + 2] <= settles.to_position LOOP
            IF settles.ledger[cardinality(settles.ledger)] = passed[gaps + 1] - 1 THEN
                settles.ledger[cardinality(settles.ledger)] := passed[gaps + 2];
            ELSE
                settles.ledger := settles.ledger || passed[gaps + 1:gaps + 2];
            END IF;
            gaps := gaps + 2;
        END LOOP;
        settles.ahead := NULL;
        IF members[cardinality(members)] > settles.to_position THEN
            settles.ahead := ARRAY(SELECT m FROM unnest(members) m WHERE m > settles.to_position ORDER BY m);
        END IF;
        settles.tidy := CASE WHEN bundle = count THEN nullif(bundle_cursors.tidy, false) END;
        settles.passes := NULL;
        IF noted <> '{}' THEN
            settles.passes := nullif(ARRAY(SELECT n.first FROM unnest(noted, ends) AS n(first, last)
                                            WHERE n.last > settles.from_position AND n.last <= settles.to_position ORDER BY 1), '{}');
        END IF;
        IF settles.ahead IS NOT NULL THEN
            noted := noted || settles.ahead[1];
            ends := ends || settles.ahead[cardinality(settles.ahead)];
        END IF;
        settles.late := nullif(settles.late, 0);
        settles.late_sum := nullif(settles.late_sum, 0);
        cursors := cursors || jsonb_strip_nulls(to_jsonb(settles))::text;
        settles.from_ledger := settles.ledger;
        settles.follows := settles.ahead[1];
        settles.late := 0;
        settles.late_sum := 0;
        settles.parks := NULL;
    END LOOP;
    RETURN cursors;
END
$$;
