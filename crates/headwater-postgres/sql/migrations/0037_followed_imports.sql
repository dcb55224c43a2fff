-- Imports that follow a table which is still written to.
-- Frozen once shipped.

ALTER TABLE headwater_private.imports
    -- preparing: the trigger may be there or not; backlog: it is there, and rows older than it are
    -- imported; following: new rows are imported; finishing: the trigger is being removed; ended:
    -- it is removed. NULL: the import never followed its table.
    ADD COLUMN follow_state text COLLATE "C" CHECK (follow_state IN ('preparing', 'backlog', 'following', 'finishing', 'ended')),
    -- names the trigger and the table of notes in the source
    ADD COLUMN follow_token text COLLATE "C",
    -- how many batches were imported since following began
    ADD COLUMN follow_batch bigint NOT NULL DEFAULT 0,
    -- the notes of the last batch: the source may still have them
    ADD COLUMN follow_notes bigint[] NOT NULL DEFAULT '{}',
    -- events that were imported by their notes
    ADD COLUMN followed_events bigint NOT NULL DEFAULT 0;
