-- Lets one process at a time migrate. Only the owner can lock this table.
LOCK TABLE headwater.migrations IN EXCLUSIVE MODE
