-- Holds a server connection of a pooler in transaction mode for what follows.
BEGIN
