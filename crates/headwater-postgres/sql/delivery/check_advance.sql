-- headwater_private.check_advance(namespace_id, to_position, ledger, settled, settled_sum, late,
-- late_sum)
-- Refuses to move a checkpoint beyond the head of the log, a ledger that is not valid, and counts
-- that are impossible.
-- Raises: WH002, WH016. Locks: as require_in_log. Writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.check_advance(
    namespace_id int, to_position bigint, ledger bigint[], settled bigint, settled_sum numeric, late bigint, late_sum numeric
) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM headwater_private.require_in_log(namespace_id, to_position);
    PERFORM headwater_private.check_sequences(namespace_id, ledger, true);
    -- NaN is above every number.
    IF (settled BETWEEN 0 AND 1000000000000000 AND late BETWEEN 0 AND 1000000000000000 AND settled_sum BETWEEN 0 AND 1e40 AND late_sum BETWEEN 0 AND 1e40) IS NOT TRUE THEN
        PERFORM headwater_private.fail('WH002', format('invalid counts %s, %s, %s, %s at position %s', settled, settled_sum, late, late_sum, to_position),
            jsonb_build_object('what', 'settled', 'value', settled), 'count the events since the checkpoint was last written');
    END IF;
END
$$;
