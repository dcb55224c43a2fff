-- headwater.add_poison_notifier(namespace, notifier)
-- Registers a notifier that nodes have under this name. Poison that is found from now on is
-- reported to it at least once, by one of the nodes that have it. Returns whether the notifier is
-- new.
-- Raises: WH001, WH002. Locks: nothing. Writes: the notifiers.
CREATE OR REPLACE FUNCTION headwater.add_poison_notifier(namespace text, notifier text, caller headwater.caller DEFAULT current_user)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns headwater_private.namespaces := headwater_private.open_namespace(add_poison_notifier.namespace, caller, 'consumer');
BEGIN
    PERFORM headwater_private.check_name('notifier', add_poison_notifier.notifier, 255);
    INSERT INTO headwater_private.poison_notifiers (namespace_id, notifier) VALUES (ns.namespace_id, add_poison_notifier.notifier)
        ON CONFLICT DO NOTHING;
    RETURN FOUND;
END
$$;
