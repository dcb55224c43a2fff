-- headwater.maintain_shared(after_namespace_id, max_namespaces)
-- Public: in docs/sql.md.
-- Creates coming months and seals past ones for namespaces that share their months and have not
-- done so themselves, because none of their nodes runs. Each call handles some namespaces, by their
-- numbers. Returns the number to continue after; NULL: there are no more. If somebody is in the way
-- of a namespace, a later call handles it, and no other namespace waits for it.
-- Raises: WH002, WH015 (others than the owner). Locks, writes: see prepare_months, seal_past.
CREATE OR REPLACE FUNCTION headwater.maintain_shared(
    after_namespace_id int DEFAULT 0, max_namespaces int DEFAULT 200, caller headwater.caller DEFAULT current_user
) RETURNS int LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '200ms' SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    this_month constant timestamptz := date_trunc('month', clock_timestamp(), 'UTC');
    n          headwater_private.namespaces;
    last_id    int;
    done       int := 0;
BEGIN
    PERFORM headwater_private.require_owner(caller);
    IF coalesce(maintain_shared.max_namespaces NOT BETWEEN 1 AND 1000, true) THEN
        PERFORM headwater_private.fail('WH002', format('invalid max_namespaces %s', coalesce(maintain_shared.max_namespaces::text, 'NULL')),
            jsonb_build_object('what', 'max_namespaces', 'value', maintain_shared.max_namespaces), 'max_namespaces is 1 to 1000');
    END IF;
    FOR n IN SELECT n.* FROM headwater_private.namespaces n
              WHERE n.storage = 'shared' AND n.namespace_id > coalesce(maintain_shared.after_namespace_id, 0) AND n.tail_from < this_month
              ORDER BY n.namespace_id LIMIT maintain_shared.max_namespaces LOOP
        BEGIN
            PERFORM headwater_private.prepare_months(n, clock_timestamp(), true);
            PERFORM headwater_private.seal_past(n, true);
        EXCEPTION
            WHEN lock_not_available THEN
                -- A transaction is in the way, perhaps for long. The other namespaces do not wait
                -- for it, and the next call tries again.
                NULL;
            WHEN OTHERS THEN
                RAISE WARNING 'failed to maintain namespace %: %', quote_literal(n.namespace), SQLERRM;
        END;
        last_id := n.namespace_id;
        done := done + 1;
    END LOOP;
    -- Guard the months that granted roles have sealed: only the owner can.
    PERFORM headwater_private.guard_month(l.leaf, false) FROM headwater_private.leaves_of('events') l
      WHERE l.ends_at <= this_month AND NOT l.detaching AND EXISTS (SELECT FROM headwater_private.months m WHERE m.leaf = l.leaf);
    RETURN CASE WHEN done = maintain_shared.max_namespaces THEN last_id END;
END
$$;
