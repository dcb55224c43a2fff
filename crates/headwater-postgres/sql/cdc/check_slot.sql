-- headwater_private.check_slot(namespace_id, slot)
-- Refuses the name of a durable slot that does not belong to a namespace: another namespace could
-- have it.
-- Raises: WH002. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.check_slot(namespace_id int, slot text)
RETURNS void LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF slot ~ format('^headwater_n%s_d[0-9]{1,10}$', namespace_id) IS NOT TRUE THEN
        PERFORM headwater_private.fail('WH002', format('invalid slot %L', left(slot, 80)), jsonb_build_object('what', 'slot', 'value', left(slot, 80)),
            format('a slot of this namespace is called headwater_n%s_d and the oid of the database', namespace_id));
    END IF;
END
$$;
