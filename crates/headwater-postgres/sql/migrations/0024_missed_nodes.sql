-- Nodes are missed before they are forgotten, and nobody else speaks for them.
-- Frozen once shipped.

-- When it was first found to be silent for long, if it was not heard of since.
ALTER TABLE headwater_private.nodes ADD COLUMN missed_at timestamptz;
-- The role that registered it; NULL: it was before this was noted, and consumers alone speak for it.
ALTER TABLE headwater_private.nodes ADD COLUMN role name COLLATE "C";
