-- States are compared when they are written, and an event changes a state once.
-- Frozen once shipped.

-- The transaction that wrote the state, so that who read it can tell whether it is still the same. A state that is NULL is none: whoever
-- makes it holds the row until then.
ALTER TABLE headwater_private.states ADD COLUMN version bigint NOT NULL DEFAULT 0, ALTER COLUMN state DROP NOT NULL;

-- Which events have changed which states of a projection, written with the state. If the checkpoint had not passed such an event before a crash, it
-- comes again, and changes nothing. When the checkpoints of all partitions have passed an event, its rows say nothing any more, and go.
CREATE TABLE headwater_private.applied_events (
    namespace_id    int NOT NULL,
    owner           text COLLATE "C" NOT NULL,
    global_sequence bigint NOT NULL,
    state_id        text COLLATE "C" NOT NULL,
    PRIMARY KEY (namespace_id, owner, global_sequence, state_id)
);

-- What they take or answer has changed.
DROP FUNCTION IF EXISTS headwater.get_state(int, text, text, headwater.caller);
DROP FUNCTION IF EXISTS headwater.get_state_for_update(int, text, text, headwater.caller);
DROP FUNCTION IF EXISTS headwater.put_state(int, text, text, jsonb, headwater.caller);
DROP FUNCTION IF EXISTS headwater.delete_state(int, text, text, headwater.caller);
