-- headwater_private.require_proof()
-- Refuses to continue where a missing sequence proves nothing: in a transaction that keeps one
-- snapshot (REPEATABLE READ, SERIALIZABLE), because what commits while it runs would look like a
-- permanent gap; and on a standby, which does not see the locks of the primary's writers.
-- Raises: WH006. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.require_proof()
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    place text := CASE WHEN pg_is_in_recovery() THEN 'on a standby server'
                       WHEN current_setting('transaction_isolation') IN ('repeatable read', 'serializable')
                       THEN format('in a %s transaction', current_setting('transaction_isolation')) END;
BEGIN
    IF place IS NOT NULL THEN
        PERFORM headwater_private.fail('WH006', 'the log cannot be read safely ' || place, jsonb_build_object('place', place),
            'read it on the primary, in a READ COMMITTED transaction or outside of one');
    END IF;
END
$$;
