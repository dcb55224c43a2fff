-- Begins an import, or finds the one that was begun; `is_same`: as it is asked for now.
SELECT * FROM headwater.import_begin($1, $2, $3)
