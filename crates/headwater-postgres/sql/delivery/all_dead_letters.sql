-- headwater.all_dead_letters(after_namespace, after_subscriber, after_sequence, states,
-- only_subscriber, only_type, only_key, error_contains, max_letters)
-- Returns dead letters of all namespaces in which the caller may consume, with their events, as
-- headwater.list_dead_letters does: by namespace, subscriber and sequence, after this one (NULL:
-- from the first). A page reads the letters that it returns, and those between them that do not
-- match.
-- Raises: WH002 (max_letters). Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.all_dead_letters(
    after_namespace text DEFAULT NULL, after_subscriber text DEFAULT NULL, after_sequence bigint DEFAULT NULL, states text[] DEFAULT NULL,
    only_subscriber text DEFAULT NULL, only_type text DEFAULT NULL, only_key text DEFAULT NULL, error_contains text DEFAULT NULL,
    max_letters int DEFAULT 200, caller headwater.caller DEFAULT current_user
) RETURNS TABLE (namespace text, subscriber_id text, event jsonb, order_key text, state text, parks_key boolean, attempts jsonb, created_at timestamptz,
                 updated_at timestamptz, reason text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET plan_cache_mode = force_custom_plan SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    left_ int := all_dead_letters.max_letters;
    rows_ int;
    ns    record;
BEGIN
    PERFORM headwater_private.check_max_events(all_dead_letters.max_letters);
    -- One namespace after the other, only those that have letters. Each is read by its index, and
    -- none after the page is full.
    FOR ns IN
        WITH RECURSIVE with_letters AS (
            (SELECT d.namespace_id FROM headwater_private.dead_letters d ORDER BY d.namespace_id LIMIT 1)
            UNION ALL
            SELECT (SELECT d.namespace_id FROM headwater_private.dead_letters d WHERE d.namespace_id > w.namespace_id
                     ORDER BY d.namespace_id LIMIT 1)
              FROM with_letters w WHERE w.namespace_id IS NOT NULL
        )
        SELECT n.namespace_id, n.namespace FROM with_letters w
          JOIN headwater_private.namespaces n ON n.namespace_id = w.namespace_id
         WHERE (n.namespace >= all_dead_letters.after_namespace) IS NOT FALSE
           AND headwater_private.is_granted(n.namespace_id, caller, 'consumer')
         ORDER BY n.namespace
    LOOP
        RETURN QUERY
        SELECT ns.namespace, d.subscriber_id, d.event, d.order_key, d.state, d.parks_key, d.attempts, d.created_at, d.updated_at, d.reason
          FROM headwater_private.dead_letters d
         WHERE d.namespace_id = ns.namespace_id
           AND (all_dead_letters.only_subscriber IS NULL OR d.subscriber_id = all_dead_letters.only_subscriber)
           AND d.state = ANY (coalesce(all_dead_letters.states, ARRAY['dead', 'parked', 'redriving']))
           AND (all_dead_letters.only_type IS NULL OR d.event_type = all_dead_letters.only_type)
           AND (all_dead_letters.only_key IS NULL OR d.order_key = all_dead_letters.only_key)
           AND (all_dead_letters.error_contains IS NULL OR strpos(d.error, all_dead_letters.error_contains) > 0)
           AND (ns.namespace IS DISTINCT FROM all_dead_letters.after_namespace
                OR (d.subscriber_id, d.global_sequence) > (coalesce(all_dead_letters.after_subscriber, ''), coalesce(all_dead_letters.after_sequence, 0)))
         ORDER BY d.subscriber_id, d.global_sequence LIMIT left_;
        GET DIAGNOSTICS rows_ = ROW_COUNT;
        left_ := left_ - rows_;
        EXIT WHEN left_ <= 0;
    END LOOP;
END
$$;
