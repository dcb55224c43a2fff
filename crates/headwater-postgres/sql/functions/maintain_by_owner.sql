-- headwater.maintain_by_owner(namespace_id)
-- headwater.maintain_namespace as the owner of the tables, for roles that may not make partitions. It does what is due by the clock and nothing else, so it
-- is no harm whoever calls it for which namespace, and it tells nothing.
-- Raises: nothing. Locks, writes: see maintain_namespace.
CREATE OR REPLACE FUNCTION headwater.maintain_by_owner(namespace_id int)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name text;
BEGIN
    SELECT n.namespace INTO name FROM headwater.namespaces n WHERE n.namespace_id = maintain_by_owner.namespace_id;
    IF FOUND THEN
        PERFORM headwater.maintain_namespace(name);
    END IF;
END
$$;
