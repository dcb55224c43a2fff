-- Returns the last row that has a note, by the columns that order rows.
SELECT ARRAY[{noted_cursor}] AS cursor FROM {notes} noted ORDER BY {noted_order_down} LIMIT 1
