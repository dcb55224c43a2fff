-- A namespace may keep an index of its events by type (index => 'types'): one more row per event, which the appends write.
-- Frozen once shipped.

ALTER TABLE headwater_private.namespaces
    -- what the namespace's owner chose; how far the index is: index_states
    ADD COLUMN index text NOT NULL DEFAULT 'none' CHECK (index IN ('none', 'types'));

-- Whether appends to a gapless namespace write the index. They hold this row until they end (functions/set_index.sql).
ALTER TABLE headwater_private.counters ADD COLUMN has_index boolean NOT NULL DEFAULT false;

-- The events of namespaces with an index, by type. Written by append_batch, import_events and maintain_index, and by nobody else.
CREATE TABLE headwater_private.type_index (
    namespace_id    int NOT NULL,
    event_type      text COLLATE "C" NOT NULL,
    global_sequence bigint NOT NULL,
    PRIMARY KEY (namespace_id, event_type, global_sequence)
);

-- The index of a namespace.
--   building   events up to fill_to are being added, and are there up to filled_to; later ones are added by their appends
--   ready      all events of the namespace are in it: reads use it
--   removing   it was switched off, and its rows are being deleted
CREATE TABLE headwater_private.index_states (
    namespace_id int PRIMARY KEY,
    state        text NOT NULL CHECK (state IN ('building', 'ready', 'removing')),
    filled_to    bigint NOT NULL DEFAULT 0,
    fill_to      bigint NOT NULL DEFAULT 0,
    -- What was trimmed up to here was deleted from the index.
    swept_to     bigint NOT NULL DEFAULT 0
);

ALTER TYPE headwater.namespace ADD ATTRIBUTE index text, ADD ATTRIBUTE index_state text;
DROP FUNCTION IF EXISTS headwater.create_namespace(text, text, boolean, interval, int, jsonb, text, text, headwater.caller);
DROP FUNCTION IF EXISTS headwater.alter_namespace(text, boolean, interval, int, jsonb, boolean, headwater.caller);
DROP FUNCTION IF EXISTS headwater.list_namespaces(text, headwater.caller);
