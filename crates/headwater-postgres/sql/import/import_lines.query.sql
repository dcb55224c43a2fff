-- Imports lines of an export.
SELECT i.events, i.rows, i.ending::text AS ending FROM headwater.import_lines($1, $2, $3) i
