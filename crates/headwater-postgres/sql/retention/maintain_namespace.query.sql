-- Keeps the tables of the coming months ready.
SELECT headwater.maintain_namespace($1)
