-- Moves a namespace's sequence to shortly before the low half of its values begins anew.
SELECT setval(sequence, 4294967296 - 400) FROM headwater_private.namespaces WHERE namespace = $1
