-- headwater.cdc_own(namespace, slot, node, instance, term, lease_ms)
-- Decides who owns a namespace's durable slot. Without a term, it takes the slot in a new term, if
-- it may. With a term, it continues in that term. The row decides, by this server's clock.
--   still owned     the lease is renewed when less than two thirds of it are left; otherwise
--                   nothing is written
--   lost            if the term is over, the result has no term
--   may be taken    if it has no owner, or the lease is over, or this instance owned it, or its
--                   owner read the slot and nobody does now
-- If somebody else has locked the row (an owner that stores events), this does not wait for it: the
-- result is what the caller had. Returns the term, and the end of the WAL.
-- Raises: WH001, WH002. Locks: the slot's row, never waiting. Writes: it.
CREATE OR REPLACE FUNCTION headwater.cdc_own(
    namespace text, slot text, node text, instance uuid, INOUT term bigint, lease_ms bigint, OUT wal_end pg_lsn,
    caller headwater.caller DEFAULT current_user
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns       headwater_private.namespaces := headwater_private.open_namespace(cdc_own.namespace, caller, 'consumer');
    length   interval := make_interval(secs => lease_ms / 1000.0);
    at       timestamptz := clock_timestamp();
    there    headwater_private.cdc_slots;
BEGIN
    IF coalesce(lease_ms NOT BETWEEN 1 AND 86400000, true) THEN
        PERFORM headwater_private.fail('WH002', format('invalid lease_ms %s', coalesce(lease_ms::text, 'NULL')),
            jsonb_build_object('what', 'lease_ms', 'value', lease_ms), 'a lease is 1 ms to 1 day');
    END IF;
    IF slot IS NULL OR node IS NULL OR instance IS NULL THEN
        PERFORM headwater_private.fail('WH002', 'slot, node and instance are needed', jsonb_build_object('what', 'slot', 'value', slot),
            'say which slot, and who wishes to own it');
    END IF;
    PERFORM headwater_private.check_slot(ns.namespace_id, slot);
    cdc_own.wal_end := CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_flush_lsn() END;
    SELECT s.* INTO there FROM headwater_private.cdc_slots s WHERE s.namespace_id = ns.namespace_id;
    IF cdc_own.term IS NOT NULL THEN
        IF there.term IS DISTINCT FROM cdc_own.term OR there.owner_instance IS DISTINCT FROM cdc_own.instance THEN
            cdc_own.term := NULL;
        ELSIF there.lease_until < at + length * 2 / 3 THEN
            PERFORM FROM headwater_private.cdc_slots s
              WHERE s.namespace_id = ns.namespace_id AND s.term = cdc_own.term AND s.owner_instance = cdc_own.instance
                FOR NO KEY UPDATE SKIP LOCKED;
            IF FOUND THEN
                UPDATE headwater_private.cdc_slots s SET lease_until = at + length WHERE s.namespace_id = ns.namespace_id;
            END IF;
        END IF;
        RETURN;
    END IF;
    IF there.namespace_id IS NULL THEN
        INSERT INTO headwater_private.cdc_slots (namespace_id, slot) VALUES (ns.namespace_id, cdc_own.slot) ON CONFLICT DO NOTHING;
        SELECT s.* INTO there FROM headwater_private.cdc_slots s WHERE s.namespace_id = ns.namespace_id;
    END IF;
    IF there.owner_instance IS NULL OR there.owner_instance = cdc_own.instance OR there.lease_until <= at
       OR (there.reading AND NOT EXISTS (SELECT FROM pg_replication_slots r WHERE r.slot_name = there.slot AND r.active)) THEN
        -- Lock the row only if it is as it was when it was found to be free.
        PERFORM FROM headwater_private.cdc_slots s
          WHERE s.namespace_id = ns.namespace_id AND s.term = there.term AND s.reading = there.reading
            AND s.lease_until IS NOT DISTINCT FROM there.lease_until
            FOR NO KEY UPDATE SKIP LOCKED;
        IF FOUND THEN
            UPDATE headwater_private.cdc_slots s
               SET term = nextval('headwater_private.terms'), owner_node = cdc_own.node, owner_instance = cdc_own.instance,
                   lease_until = at + length, reading = false, caught_up = false
             WHERE s.namespace_id = ns.namespace_id
            RETURNING s.term INTO cdc_own.term;
        END IF;
    END IF;
END
$$;
