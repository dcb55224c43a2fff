-- headwater.poison_to_tell(namespace, notifier, max_events)
-- Lists poison that a notifier has not reported yet, in log order.
-- Raises: WH001, WH002. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.poison_to_tell(namespace text, notifier text, max_events int, caller headwater.caller DEFAULT current_user)
RETURNS SETOF bigint LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns headwater_private.namespaces := headwater_private.open_namespace(poison_to_tell.namespace, caller, 'consumer');
BEGIN
    PERFORM headwater_private.check_max_events(poison_to_tell.max_events);
    RETURN QUERY SELECT u.global_sequence FROM headwater_private.untold_poison u
                  WHERE u.namespace_id = ns.namespace_id AND u.notifier = poison_to_tell.notifier
                  ORDER BY u.global_sequence LIMIT poison_to_tell.max_events;
END
$$;
