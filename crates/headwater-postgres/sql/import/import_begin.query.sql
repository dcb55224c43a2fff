-- Begins an import, or finds the one that was begun. `is_same`: that one has the same source.
SELECT * FROM headwater.import_begin($1, $2, $3)
