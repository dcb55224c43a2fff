-- headwater_private.refuse_sealed()
-- The trigger of a sealed month. Where namespaces share the month, each of them seals it for
-- itself. Appends never record before `sealed_before`. If an append has read that value before the
-- month was sealed, and the clock has gone back since, the append fails here and is tried again,
-- instead of putting an event where no reader looks.
-- Raises: WH035, unless the namespace has not sealed the month. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.refuse_sealed()
RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM headwater_private.namespaces n
                WHERE n.namespace_id = NEW.namespace_id AND n.storage = 'shared' AND n.sealed_before <= NEW.recorded_at) THEN
        RETURN NEW;
    END IF;
    PERFORM headwater_private.fail('WH035', format('%I is sealed: its month is over', TG_TABLE_NAME),
        jsonb_build_object('leaf', TG_TABLE_NAME, 'recorded_at', NEW.recorded_at), 'append again; see whether the server''s clock was set back');
    RETURN NULL;
END
$$;
