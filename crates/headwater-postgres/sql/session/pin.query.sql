-- Keeps one server connection of a pooler in transaction mode for the following statements.
BEGIN
