-- headwater_private.retire_month(leaf)
-- Prepares a month to leave its partitioned table: a step of headwater.drop_steps, which says to
-- detach it when it is proved that nobody looks for it there. The first call records that all
-- namespaces have sealed the month. Later calls say who may not know that.
--
-- Why no reader misses the month. A reader looks for a month in the partitioned table only if its
-- snapshot shows the month as not sealed: for a namespace whose `tail_from` lies before the month's
-- end. The first call sees no such namespace. What its snapshot sees was done by transactions with
-- ids below its xmax, and that xmax is recorded. A snapshot that does not see one of these
-- transactions counts it as in progress, so its xmin is lower. A function that reads `tail_from` in
-- one statement and reads events in a later one runs inside a statement of its caller, whose
-- snapshot is kept for as long. A prepared transaction reads nothing any more, and a standby
-- refuses reads of the log. So when no snapshot with a lower xmin is in use, nobody looks for the
-- month there, and nobody will.
-- Raises: WH002 (somebody may still need the month there), WH006, 55P03 (an older snapshot is in
-- use; its holder is named). Locks: nothing. Writes: the note.
CREATE OR REPLACE FUNCTION headwater_private.retire_month(leaf text)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    bound   xid8;
    is_new  boolean;
    holders jsonb;
BEGIN
    PERFORM headwater_private.require_proof();
    INSERT INTO headwater_private.leaving_months AS v (leaf, sealed_below)
    -- One statement: the namespaces, and the xmax of the snapshot that shows them.
    SELECT retire_month.leaf, pg_snapshot_xmax(pg_current_snapshot())
     WHERE EXISTS (SELECT FROM headwater_private.leaves_of('events') l
                    WHERE l.leaf = retire_month.leaf
                      AND NOT EXISTS (SELECT FROM headwater_private.namespaces n WHERE n.storage = 'shared' AND n.tail_from < l.ends_at))
        OR EXISTS (SELECT FROM headwater_private.months m
                    WHERE m.leaf = retire_month.leaf AND m.trimmed_at IS NOT NULL AND m.leaf ~ '^events_n')
    ON CONFLICT (leaf) DO UPDATE SET sealed_below = excluded.sealed_below
     -- A note from the future belongs to another server: the database was restored from a dump.
     WHERE NOT v.proved AND v.sealed_below > excluded.sealed_below
    RETURNING v.sealed_below INTO bound;
    is_new := FOUND;
    IF NOT is_new THEN
        SELECT v.sealed_below INTO bound FROM headwater_private.leaving_months v WHERE v.leaf = retire_month.leaf;
        IF NOT FOUND THEN
            PERFORM headwater_private.fail('WH002', format('%L is not a month that all have sealed', left(retire_month.leaf, 80)),
                jsonb_build_object('what', 'leaf', 'value', left(retire_month.leaf, 80)), 'see SELECT * FROM headwater.drop_steps(''namespace'')');
        END IF;
    END IF;
    SELECT jsonb_agg(to_jsonb(s)) INTO holders FROM headwater_private.older_snapshots(bound) s;
    IF holders IS NULL THEN
        UPDATE headwater_private.leaving_months v SET proved = true WHERE v.leaf = retire_month.leaf;
    ELSIF NOT is_new THEN
        PERFORM headwater_private.fail('55P03',
            format('month %L cannot be detached yet: snapshots are in use that may not know it as sealed%s', retire_month.leaf,
                   (SELECT string_agg(format(', by %s (pid %s, since %s)', coalesce(nullif(h ->> 'application_name', ''), 'a session'), h ->> 'pid',
                                             coalesce(h ->> 'since', 'unknown')), '')
                      FROM jsonb_array_elements(holders) h)),
            jsonb_build_object('leaf', retire_month.leaf, 'holders', holders), 'try again when these transactions have ended');
    END IF;
END
$$;
