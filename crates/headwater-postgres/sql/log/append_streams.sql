-- headwater.append(namespace, writes)
-- Public: in docs/sql.md.
-- Appends to several streams, in the caller's transaction, all or none. `writes` is a JSON array of
--     {"stream_id": "order-1", "expected_version": 3, "events": [{…}, …]}
-- with events and expected versions as in headwater.append(namespace, stream_id, …). Without a
-- stream_id, the events belong to no stream. A stream may appear once. This form has no parameter
-- `caller`, which would make calls of the other form ambiguous. It runs with the rights of its
-- caller, and so passes the caller on by itself.
-- Raises: WH001, WH002 (bad input), WH004, WH005, WH007 (version conflict). Locks, writes: see
-- append_batch.
CREATE OR REPLACE FUNCTION headwater.append(namespace text, writes jsonb)
RETURNS TABLE (event_id uuid, global_sequence bigint, stream_id text, stream_version bigint) LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY SELECT a.* FROM headwater.append_writes(append.namespace, append.writes) a;
END
$$;
