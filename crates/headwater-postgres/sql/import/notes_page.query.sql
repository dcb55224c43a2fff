-- Reads the next rows that have a note, by the columns that order rows, with their notes. A row
-- that was deleted since has only its note.
SELECT noted.note, source.tableoid IS NULL AS gone, {fields}
  FROM (SELECT noted.* FROM {notes} noted WHERE {up_to} ORDER BY {noted_order} LIMIT {limit}) noted
  LEFT JOIN {from} ON {id} = noted.{id_column}
 ORDER BY {noted_order}
