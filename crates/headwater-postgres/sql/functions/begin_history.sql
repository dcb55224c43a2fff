-- headwater.begin_history()
-- headwater_private.history(), which begins here if it has not: after a migration, a crash, a promotion. Where nothing can be written, it is NULL until somebody can.
-- Of several that begin at once, the last counts, and the others begin anew. The owner's sessions wait for each other instead, 1 s at most; they wait
-- for no other role, and no other role takes their latch.
-- For every role: it tells nothing of any namespace. Raises: nothing. Locks: a latch of the owner's, if there is none. Writes: a token, if there is none.
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
