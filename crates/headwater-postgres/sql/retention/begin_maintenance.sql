-- headwater.begin_maintenance(namespace_id, lease)
-- Lets one process at a time maintain the months of a namespace, until the lease ends or until
-- headwater.end_maintenance. It only saves work: each step of maintenance is correct by itself. It
-- is a lease because the steps are transactions of their own. Returns false if somebody else does
-- it. The owner does not wait for the lease of a granted role, which does the first steps only.
-- Raises: WH001, WH002. Locks, writes: the lease.
CREATE OR REPLACE FUNCTION headwater.begin_maintenance(namespace_id int, lease interval, caller headwater.caller DEFAULT current_user)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM headwater_private.authorize($1, caller, NULL);
    IF coalesce(lease NOT BETWEEN interval '1 second' AND interval '1 hour', true) THEN
        PERFORM headwater_private.fail('WH002', format('invalid lease %s', coalesce(lease::text, 'NULL')),
            jsonb_build_object('what', 'lease', 'value', lease), 'lease is 1 second to 1 hour');
    END IF;
    INSERT INTO headwater_private.latches AS l (namespace_id, what, held_until)
    VALUES ($1, CASE WHEN pg_has_role(caller, current_user, 'USAGE') THEN 'maintenance' ELSE 'maintenance by a granted role' END,
            clock_timestamp() + lease)
    ON CONFLICT (namespace_id, what) DO UPDATE SET held_until = excluded.held_until
     WHERE coalesce(l.held_until < clock_timestamp(), true);
    RETURN FOUND;
END
$$;
