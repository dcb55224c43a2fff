-- Seals past months of namespaces that share them and whose nodes do not.
SELECT headwater.maintain_shared($1)
