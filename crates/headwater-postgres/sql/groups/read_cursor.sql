-- headwater_private.read_cursor(cursor)
-- Parses a cursor of headwater.next_events.
-- Raises: WH002 if it is not a cursor. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.read_cursor(cursor text)
RETURNS headwater_private.settlement LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    move headwater_private.settlement;
BEGIN
    BEGIN
        move := jsonb_populate_record(NULL::headwater_private.settlement, cursor::jsonb);
    EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
        move := NULL;
    END;
    IF move.history IS NULL OR move.letter IS NULL AND (move.from_position IS NULL OR move.to_position IS NULL OR move.ledger IS NULL OR move.from_ledger IS NULL)
       OR array_ndims(move.ahead) > 1 OR array_ndims(move.parks) > 1 OR cardinality(move.ahead) > 1000000 OR cardinality(move.parks) > 1000000 THEN
        PERFORM headwater_private.fail('WH002', format('invalid cursor %L', left(cursor, 80)), jsonb_build_object('what', 'cursor', 'value', left(cursor, 80)),
            'give the cursor of the bundle''s last event, as headwater.next_events answered it');
    END IF;
    move.events := coalesce(move.events, 0);
    move.event_sum := coalesce(move.event_sum, 0);
    move.late := coalesce(move.late, 0);
    move.late_sum := coalesce(move.late_sum, 0);
    RETURN move;
END
$$;
