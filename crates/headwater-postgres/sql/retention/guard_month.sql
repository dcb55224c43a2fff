-- headwater_private.guard_month(leaf, must)
-- Creates the trigger that refuses events of namespaces that have sealed a month (refuse_sealed),
-- unless it exists. It guards against a clock that goes back. Creating it waits for every
-- transaction that has added to the month and is not finished. Where namespaces share the month,
-- one of them must not keep the others waiting: there it is left to the next call (must => false),
-- because sealing is proved without it. must => NULL only checks. Returns whether the trigger
-- exists.
-- Raises: 55P03 if it must, and somebody is in its way for longer than lock_timeout. Locks: SHARE
-- ROW EXCLUSIVE on the leaf. Writes: the trigger.
CREATE OR REPLACE FUNCTION headwater_private.guard_month(leaf text, must boolean)
RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_trigger t
                WHERE t.tgrelid = format('headwater_private.%I', guard_month.leaf)::regclass AND t.tgname = 'headwater_sealed') THEN
        RETURN true;
    ELSIF guard_month.must IS NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE TRIGGER headwater_sealed BEFORE INSERT ON headwater_private.%I
                    FOR EACH ROW EXECUTE FUNCTION headwater_private.refuse_sealed()', guard_month.leaf);
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    IF guard_month.must THEN
        RAISE;
    END IF;
    RETURN false;
END
$$;
