-- headwater.read_log(namespace, after_sequence, max_events, event_types, stream_prefix)
-- Public: in docs/sql.md.
-- Returns events of the log after a sequence, in order, up to the horizon. A reader that continues
-- from the last event it got misses none, however late other transactions commit. Fewer than
-- max_events means the end, or that the transactions that headwater.writers shows hold back the
-- rest.
--   event_types  only these types, in which * stands for any characters (NULL: all)
-- Raises: WH001, WH002, WH006. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.read_log(
    namespace      text,
    after_sequence bigint DEFAULT 0,
    max_events     int DEFAULT 1000,
    event_types    text[] DEFAULT NULL,
    stream_prefix  text DEFAULT NULL,
    caller headwater.caller DEFAULT current_user
) RETURNS SETOF headwater_private.events LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns     headwater_private.namespaces := headwater_private.open_namespace(read_log.namespace, caller, 'consumer');
    safe   bigint;
    bounds record;
BEGIN
    PERFORM headwater_private.check_max_events(read_log.max_events);
    -- Two statements, in this order: the second takes its snapshot after the locks were read.
    SELECT h.horizon INTO safe FROM headwater_private.horizon_of(ns.namespace_id) h;
    SELECT l.* INTO bounds FROM headwater_private.log_bounds(ns.namespace_id, coalesce(read_log.after_sequence, 0), safe,
        CASE WHEN read_log.event_types IS NULL AND read_log.stream_prefix IS NULL THEN read_log.max_events END) l;
    RETURN QUERY SELECT p.* FROM headwater.log_page(ns.namespace_id, coalesce(read_log.after_sequence, 0), safe, read_log.max_events,
                                                    read_log.event_types, NULL, read_log.stream_prefix, bounds.from_at, bounds.until_at) p;
END
$$;
