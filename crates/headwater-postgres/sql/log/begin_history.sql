-- headwater.begin_history()
-- Returns headwater_private.history(), and begins a history first if there is none: after a
-- migration, a crash or a promotion. On a server that takes no writes it returns NULL until
-- somebody can write.
-- If several sessions begin a history at once, the last one counts, and the others begin anew.
-- Sessions of the owner wait for each other instead, for at most 1 s. They wait for no other role,
-- and no other role takes their latch.
-- Every role may call it: it tells nothing about any namespace. Raises: nothing. Locks: a latch of
-- the owner's, if there is no history. Writes: a token, if there is none.
CREATE OR REPLACE FUNCTION headwater.begin_history(caller headwater.caller DEFAULT current_user) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET lock_timeout = '1s' SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    present uuid := headwater_private.history();
BEGIN
    IF present IS NULL AND NOT pg_is_in_recovery() AND NOT current_setting('transaction_read_only')::boolean THEN
        IF pg_has_role(caller, current_user, 'USAGE') THEN
            BEGIN
                PERFORM headwater_private.latch(0, 'history');
                present := headwater_private.history();
            EXCEPTION WHEN lock_not_available OR serialization_failure THEN
                NULL;
            END;
        END IF;
        IF present IS NULL THEN
            INSERT INTO headwater_private.histories (number, token, path, started_at)
            VALUES (nextval('headwater_private.history_numbers'), gen_random_uuid(), pg_relation_filepath('headwater_private.histories'),
                    pg_postmaster_start_time());
            present := headwater_private.history();
        END IF;
    END IF;
    RETURN present;
END
$$;
