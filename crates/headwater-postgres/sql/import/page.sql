-- The next rows to import, by the columns that order them. What stands in braces is put in by
-- src/import/texts.rs: identifiers and constants, quoted.
SELECT {fields}
  FROM {from}
 WHERE {after} AND {not_noted}
 ORDER BY {order}
 LIMIT {limit}
