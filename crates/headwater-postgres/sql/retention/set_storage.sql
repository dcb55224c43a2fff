-- headwater.set_storage(namespace, storage, max_events)
-- Public: in docs/sql.md.
-- Moves a namespace to tables of its own ('own'), or to the months that namespaces share
-- ('shared'), while it is in use. Each call takes one step and commits with its transaction; call
-- it until it returns `done`. If a call is cut off, call it again. To take back a move that was
-- begun, ask for the storage that the namespace still has.
--   step     begun     the new place exists
--            copied    `events` events of months that are not sealed were copied
--            switched  new events go to the new place, and all events of open months are read there
--            moved     a past month was moved, with `events` events
--            dropped   the namespace's own tables are gone
--            undone    what an earlier call had begun was taken back
--            done      nothing is left to do
--   behind   about how many sequences are still to be copied before the switch
--
-- Nothing is lost, and no reader takes what is missing for a gap:
--   1. Events are copied up to the horizon, below which nothing can still commit. The switch copies
--      the rest, which is little.
--   2. The switch locks the sequence against nextval. Every append holds that lock until it ends
--      (enter_log), so no append is under way then. The switch waits for appends for at most 200
--      ms. Later appends wait behind it: for these 200 ms and for the switch itself, which copies
--      at most 1,000 events.
--   3. The sequence is replaced, and the old one can hand out no more values. So an append that has
--      read the namespace's row before the switch stores nothing: append_batch reads the row again,
--      or, in a transaction that keeps one snapshot, fails with 40001. In a gapless namespace the
--      counter row does both.
--   4. The old place keeps its rows. A reader with an older snapshot, which reads there, finds all
--      events up to the switch; all later events have higher sequences. The namespace's own table
--      is dropped as a whole, which is an error for that reader and no hole. A table that
--      namespaces share is rewritten without these rows after it has left `events`
--      (headwater.drop_steps).
-- Raises: WH001, WH002 (storage; pg_partman), WH006, WH015 (others than the owner), WH038 (somebody
-- is in the way: try again).
-- Locks: the sequence or the counter, a latch, for at most 200 ms before it gives up. Writes:
-- tables of events, months, the namespace.
CREATE OR REPLACE FUNCTION headwater.set_storage(
    namespace text, storage text, max_events int DEFAULT 10000,
    OUT step text, OUT events bigint, OUT behind bigint,
    caller headwater.caller DEFAULT current_user
) LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '200ms' SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns      headwater_private.namespaces := headwater_private.open_namespace(set_storage.namespace, caller, 'owner');
    move    headwater_private.storage_moves;
    safe    bigint;
    up_to   bigint;
    found_  bigint;
BEGIN
    PERFORM headwater_private.require_proof();
    IF set_storage.storage IS NULL THEN
        PERFORM headwater_private.fail('WH002', 'invalid storage NULL', jsonb_build_object('what', 'storage', 'value', NULL), 'storage is shared or own');
    END IF;
    PERFORM headwater_private.check_max_events(set_storage.max_events);
    PERFORM headwater_private.check_namespace_settings(NULL, NULL, NULL, NULL, ns.months_made_by, set_storage.storage);
    -- One move at a time.
    PERFORM headwater_private.latch(ns.namespace_id, 'storage');
    ns := headwater_private.namespace_again(ns.namespace_id);
    events := 0;
    behind := 0;
    SELECT m.* INTO move FROM headwater_private.storage_moves m WHERE m.namespace_id = ns.namespace_id;
    IF move.storage <> set_storage.storage THEN
        PERFORM headwater_private.undo_move(ns);
        step := 'undone';
        RETURN;
    END IF;
    IF move IS NULL THEN
        -- Finish the last move first.
        SELECT s.step, s.events INTO step, events FROM headwater_private.complete_move(ns) s;
        IF step IS NOT NULL THEN
            RETURN;
        END IF;
        events := 0;
        IF ns.storage = set_storage.storage THEN
            step := 'done';
            RETURN;
        END IF;
    END IF;
    IF headwater_private.begin_move(ns, set_storage.storage) THEN
        step := 'begun';
        RETURN;
    END IF;

    SELECT h.horizon INTO safe FROM headwater_private.horizon_of(ns.namespace_id) h;
    -- A statement after the horizon: it sees everything that is settled.
    EXECUTE format('SELECT max(e.global_sequence), count(*)
                      FROM (SELECT e.global_sequence FROM headwater_private.%I e
                             WHERE e.namespace_id = $1 AND e.global_sequence > $2 AND e.global_sequence <= $3 AND e.recorded_at >= $4
                             ORDER BY e.global_sequence LIMIT $5) e', headwater_private.log_table(ns))
       INTO up_to, found_ USING ns.namespace_id, move.copied_to, safe, move.from_at, set_storage.max_events;
    IF found_ > 0 THEN
        events := headwater_private.copy_events(headwater_private.log_table(ns), headwater_private.move_target(ns, set_storage.storage), ns.namespace_id,
                                                move.copied_to, up_to, move.from_at, set_storage.storage = 'shared');
        UPDATE headwater_private.storage_moves m SET copied_to = up_to WHERE m.namespace_id = ns.namespace_id;
    END IF;
    -- Try the switch when little is left, because a refused switch loses what the same call copied.
    IF found_ > set_storage.max_events / 10 THEN
        step := 'copied';
        behind := greatest(safe - up_to, 0);
        RETURN;
    END IF;
    events := events + headwater_private.switch_storage(ns, set_storage.storage, set_storage.max_events);
    step := 'switched';
END
$$;
