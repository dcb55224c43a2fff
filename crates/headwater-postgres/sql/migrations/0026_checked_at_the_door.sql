-- Events are checked by the functions that append them, which nobody goes around: a check of the table is parsed by each statement anew, which cost
-- a lone event a tenth of its append.
-- Frozen once shipped.

DO $$
DECLARE
    c record;
BEGIN
    -- The parent first: leaves have the check as their own, too.
    FOR c IN SELECT k.conrelid::regclass AS relation, k.conname AS name
               FROM pg_constraint k
               JOIN pg_partition_tree('headwater_private.events') t ON t.relid = k.conrelid
              WHERE k.contype = 'c' AND pg_get_constraintdef(k.oid) LIKE '%octet_length(event_type)%'
              ORDER BY t.level LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT IF EXISTS %I', c.relation, c.name);
    END LOOP;
END
$$;
