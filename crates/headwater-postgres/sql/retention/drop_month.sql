-- headwater_private.drop_month(leaf)
-- Drops the table of a past month that nobody needs any more: a step of headwater.drop_steps. The
-- call may come late, so it checks again: the table must be detached, and no namespace may keep
-- events in it. If the table is gone already, it does nothing.
-- Raises: WH002 if it is no such table, WH006, 55P03 if somebody reads it (try again). Locks: the
-- latch against sessions that rewrite months; the table. Writes: the table.
CREATE OR REPLACE FUNCTION headwater_private.drop_month(leaf text)
RETURNS void LANGUAGE plpgsql SET lock_timeout = '500ms' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    month regclass;
BEGIN
    PERFORM headwater_private.require_proof();
    PERFORM headwater_private.latch(0, 'rewrite');
    month := to_regclass(format('headwater_private.%I', drop_month.leaf));
    IF month IS NULL THEN
        RETURN;
    END IF;
    IF NOT EXISTS (SELECT FROM headwater_private.months m WHERE m.leaf = drop_month.leaf
                    UNION ALL SELECT FROM headwater_private.left_behind b WHERE b.leaf = drop_month.leaf)
       OR EXISTS (SELECT FROM headwater_private.months m
                   WHERE m.leaf = drop_month.leaf AND m.trimmed_at IS NULL AND m.last_sequence IS NOT NULL)
       OR EXISTS (SELECT FROM pg_catalog.pg_inherits i WHERE i.inhrelid = month) THEN
        PERFORM headwater_private.fail('WH002', format('%L is not a month that nobody needs', left(drop_month.leaf, 80)),
            jsonb_build_object('what', 'leaf', 'value', left(drop_month.leaf, 80)), 'see SELECT * FROM headwater.drop_steps(''namespace'')');
    END IF;
    EXECUTE format('DROP TABLE %s', month);
END
$$;
