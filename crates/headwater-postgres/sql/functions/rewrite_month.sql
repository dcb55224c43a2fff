-- headwater_private.rewrite_month(leaf)
-- Writes the table of a past month that namespaces share anew, without the events of those for which it is trimmed, and lets
-- headwater_private.months name the new table. The old one has all its rows until it is dropped (headwater.drop_steps): whoever chose it a moment
-- ago reads it to the end.
-- Raises: WH002 if it is no past month. Locks: a latch; the rows of months. Writes: the new table, months.
CREATE OR REPLACE FUNCTION headwater_private.rewrite_month(leaf text)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    made text;
BEGIN
    PERFORM headwater_private.latch(0, 'rewrite');
    IF to_regclass(format('headwater_private.%I', rewrite_month.leaf)) IS NULL
       OR NOT EXISTS (SELECT FROM headwater_private.months m WHERE m.leaf = rewrite_month.leaf AND m.leaf !~ '^events_n')
       OR EXISTS (SELECT FROM pg_catalog.pg_inherits i WHERE i.inhrelid = to_regclass(format('headwater_private.%I', rewrite_month.leaf))) THEN
        PERFORM headwater_private.fail('WH002', format('%L is no past month that namespaces share', left(rewrite_month.leaf, 80)),
            jsonb_build_object('what', 'leaf', 'value', left(rewrite_month.leaf, 80)), 'see SELECT * FROM headwater.drop_steps(''namespace'')');
    END IF;
    made := headwater_private.new_leaf_name(regexp_replace(rewrite_month.leaf, '_r[0-9]+$', ''));
    EXECUTE format('CREATE TABLE headwater_private.%I (LIKE headwater_private.events INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', made);
    EXECUTE format('INSERT INTO headwater_private.%I
                    SELECT e.* FROM headwater_private.%I e
                     WHERE e.namespace_id IN (SELECT m.namespace_id FROM headwater_private.months m WHERE m.leaf = $1 AND m.trimmed_at IS NULL)',
                   made, rewrite_month.leaf)
      USING rewrite_month.leaf;
    PERFORM headwater_private.equip_leaf(made);
    PERFORM headwater_private.guard_month(made, true);
    UPDATE headwater_private.months m SET leaf = made WHERE m.leaf = rewrite_month.leaf AND m.trimmed_at IS NULL;
END
$$;
