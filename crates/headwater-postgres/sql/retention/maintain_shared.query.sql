-- Seals past months of namespaces that share them and have no nodes that do it.
SELECT headwater.maintain_shared($1)
