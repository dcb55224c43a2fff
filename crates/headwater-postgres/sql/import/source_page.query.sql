-- Reads the next rows to import, by the columns that order them. src/import/texts.rs fills in what
-- stands in braces: identifiers and constants, quoted.
SELECT {fields}
  FROM {from}
 WHERE {after} AND {not_noted}
 ORDER BY {order}
 LIMIT {limit}
