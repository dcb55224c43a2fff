-- Nodes are missed before they are forgotten.
-- Frozen once shipped.

-- When it was first found to be silent for long, if it was not heard of since.
ALTER TABLE headwater_private.nodes ADD COLUMN missed_at timestamptz;
