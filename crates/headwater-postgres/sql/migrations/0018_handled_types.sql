-- Which event types a node has handlers for, among those that it names.
-- Frozen once shipped.

-- As patterns. NULL: it handles all that it names.
ALTER TABLE headwater.nodes ADD COLUMN handled_types text[];
