-- headwater_private.equip_leaf(leaf)
-- Creates the missing indexes of a leaf. The indexes are on the leaves, because no unique index can
-- span them.
-- Raises: nothing of its own. Locks: SHARE on the leaf, if one is missing. Writes: the indexes.
CREATE OR REPLACE FUNCTION headwater_private.equip_leaf(leaf text)
RETURNS void LANGUAGE plpgsql SET default_tablespace = '' SET default_table_access_method = 'heap' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    wanted record;
BEGIN
    FOR wanted IN
        SELECT w.* FROM (VALUES
            ('UNIQUE', 'sequence', '(namespace_id, global_sequence)'),
            ('UNIQUE', 'id', '(namespace_id, event_id)'),
            ('UNIQUE', 'stream', '(namespace_id, stream_id, stream_version) WHERE stream_id IS NOT NULL'),
            ('', 'correlation', '(namespace_id, correlation_id, global_sequence) WHERE correlation_id IS NOT NULL'),
            ('', 'causation', '(namespace_id, causation_id, global_sequence) WHERE causation_id IS NOT NULL')) AS w(kind, name, columns)
         WHERE to_regclass(format('headwater_private.%I', equip_leaf.leaf || '_' || w.name)) IS NULL
    LOOP
        EXECUTE format('CREATE %s INDEX %I ON headwater_private.%I %s', wanted.kind, equip_leaf.leaf || '_' || wanted.name, equip_leaf.leaf, wanted.columns);
    END LOOP;
END
$$;
