-- A namespace can be moved between storage 'shared' and 'own' while it is in use: functions/set_storage.sql.
-- Frozen once shipped.

-- Moves under way, before the switch. Events that are not in sealed months are copied to the new place, in the order of the log.
CREATE TABLE headwater_private.storage_moves (
    namespace_id int PRIMARY KEY,
    storage      text NOT NULL CHECK (storage IN ('shared', 'own')),
    -- events that were recorded from here on are copied: those before are in sealed months, which are moved after the switch
    from_at      timestamptz NOT NULL,
    -- all events up to here are copied
    copied_to    bigint NOT NULL DEFAULT 0,
    began_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Tables that namespaces share and in which rows of a namespace lie that nobody reads any more, since they were copied elsewhere. The
-- row stays until the table is gone: functions/step_of_month.sql.
CREATE TABLE headwater_private.left_behind (
    leaf         text NOT NULL,
    namespace_id int NOT NULL,
    -- about how many
    events       bigint NOT NULL,
    left_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (leaf, namespace_id)
);

-- Where a gapless namespace stores its events. Whoever waited for the counter's row may have read the row of the namespace before it was
-- moved; this one is always the newest.
ALTER TABLE headwater_private.counters ADD COLUMN storage text NOT NULL DEFAULT 'shared' CHECK (storage IN ('shared', 'own'));
UPDATE headwater_private.counters c SET storage = n.storage
  FROM headwater_private.namespaces n WHERE n.namespace_id = c.namespace_id AND n.storage <> c.storage;
