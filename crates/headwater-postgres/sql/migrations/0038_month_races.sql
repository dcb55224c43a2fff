-- Tables of past months: their names are never used again, and none leaves the table of current months while somebody may still
-- look for it there.
-- Frozen once shipped.

-- The ends of the names of tables into which past months are written anew (functions/new_leaf_name.sql).
CREATE SEQUENCE headwater_private.rewritten_months;

-- Months that are about to leave the partitioned table that they are part of (functions/retire_month.sql), and trees of a namespace's own
-- that were dropped after a move (functions/begin_move.sql).
CREATE TABLE headwater_private.leaving_months (
    leaf         text PRIMARY KEY,
    -- A snapshot whose xmin is at or above this one knows that the month is sealed, or the namespace moved, and does not look there.
    sealed_below xid8 NOT NULL,
    -- No snapshot with a lower xmin is in use: it may go. This stays true.
    proved       boolean NOT NULL DEFAULT false
);
