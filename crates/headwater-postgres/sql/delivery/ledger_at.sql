-- headwater_private.ledger_at(namespace, target, kept)
-- Returns the ledger of a subscriber that is put just after `target`: the part of `kept` at or
-- below it, and everything that is not visible between the horizon and `target`. What is in flight
-- there, or not handed out yet, comes late. What is visible by now is left behind, because the
-- target was chosen so. The ranges are in order, and no two touch: a checkpoint is compared with
-- the ledger as a whole. It reads the events above the horizon.
-- Raises: WH001, WH006. Locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater_private.ledger_at(namespace text, target bigint, kept bigint[] DEFAULT '{}')
RETURNS bigint[] LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns     headwater_private.namespaces := headwater_private.namespace_row(ledger_at.namespace);
    ledger bigint[] := '{}';
    safe   bigint := 0;
    size   int := 0;
    gap    record;
BEGIN
    IF target > 0 THEN
        SELECT h.horizon INTO safe FROM headwater_private.horizon_of(ns.namespace_id) h;
    END IF;
    -- A statement of its own, after the one that read the horizon: what is missing at or below the
    -- horizon never comes.
    FOR gap IN
        WITH visible AS (
            SELECT e.global_sequence AS sequence FROM headwater_private.events_in(ns.namespace_id, safe + 1, target) e
        ), ranges AS (
            SELECT lag(v.sequence, 1, safe) OVER (ORDER BY v.sequence) + 1 AS first, v.sequence - 1 AS last FROM visible v
            UNION ALL
            SELECT coalesce(max(v.sequence), safe) + 1, target FROM visible v HAVING coalesce(max(v.sequence), safe) < target
            UNION ALL
            SELECT kept[i], least(kept[i + 1], target) FROM generate_series(1, cardinality(kept), 2) AS i
        )
        SELECT r.first, r.last FROM ranges r WHERE r.first <= r.last ORDER BY r.first
    LOOP
        IF size > 0 AND gap.first - 1 <= ledger[size] THEN
            ledger[size] := greatest(ledger[size], gap.last);
        ELSE
            ledger[size + 1] := gap.first;
            ledger[size + 2] := gap.last;
            size := size + 2;
        END IF;
    END LOOP;
    RETURN ledger;
END
$$;
