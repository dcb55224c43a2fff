-- headwater_private.rewrite_month(leaf)
-- Rewrites the table of a past month that namespaces share, without the events of namespaces for
-- which it is trimmed, and makes headwater_private.months name the new table. The old table has all
-- its rows until it is dropped (headwater.drop_steps), so a reader that chose it a moment ago reads
-- it to the end. If nobody keeps anything in it, or somebody else has done it, this does nothing.
-- Raises: WH002 if it is not a past month. Locks: a latch; the rows of months. Writes: the new
-- table, months, left_behind.
CREATE OR REPLACE FUNCTION headwater_private.rewrite_month(leaf text)
RETURNS void LANGUAGE plpgsql SET lock_timeout = '500ms' SET default_tablespace = '' SET default_table_access_method = 'heap' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    made text;
    kept int[];
BEGIN
    PERFORM headwater_private.latch(0, 'rewrite');
    IF NOT EXISTS (SELECT FROM headwater_private.months m WHERE m.leaf = rewrite_month.leaf AND m.leaf !~ '^events_n'
                    UNION ALL SELECT FROM headwater_private.left_behind b WHERE b.leaf = rewrite_month.leaf)
       OR EXISTS (SELECT FROM pg_catalog.pg_inherits i WHERE i.inhrelid = to_regclass(format('headwater_private.%I', rewrite_month.leaf))) THEN
        PERFORM headwater_private.fail('WH002', format('%L is no past month that namespaces share', left(rewrite_month.leaf, 80)),
            jsonb_build_object('what', 'leaf', 'value', left(rewrite_month.leaf, 80)), 'see SELECT * FROM headwater.drop_steps(''namespace'')');
    END IF;
    kept := ARRAY(SELECT m.namespace_id FROM headwater_private.months m WHERE m.leaf = rewrite_month.leaf AND m.trimmed_at IS NULL);
    IF kept = '{}' THEN
        -- Somebody else has done it, or all of it was trimmed since.
        RETURN;
    END IF;
    made := headwater_private.new_leaf_name(regexp_replace(rewrite_month.leaf, '_r[0-9]+$', ''));
    EXECUTE format('CREATE TABLE headwater_private.%I (LIKE headwater_private.events INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', made);
    EXECUTE format('INSERT INTO headwater_private.%I
                    SELECT e.* FROM headwater_private.%I e
                     WHERE e.namespace_id = ANY ($1)', made, rewrite_month.leaf)
      USING kept;
    PERFORM headwater_private.equip_leaf(made);
    PERFORM headwater_private.guard_month(made, true);
    UPDATE headwater_private.months m SET leaf = made
     WHERE m.leaf = rewrite_month.leaf AND m.trimmed_at IS NULL AND m.namespace_id = ANY (kept);
    -- What was trimmed in the meantime is in the new table too. What was not trimmed lies unused in
    -- the old one.
    INSERT INTO headwater_private.left_behind (leaf, namespace_id, events)
    SELECT CASE m.leaf WHEN made THEN rewrite_month.leaf ELSE made END, m.namespace_id,
           greatest(coalesce(m.events, m.last_sequence - m.first_sequence + 1), 1)
      FROM headwater_private.months m
     WHERE m.leaf IN (made, rewrite_month.leaf) AND m.last_sequence IS NOT NULL AND m.namespace_id = ANY (kept)
    ON CONFLICT DO NOTHING;
END
$$;
