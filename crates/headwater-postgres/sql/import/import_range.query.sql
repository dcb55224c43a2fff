-- Returns where the events of an import lie.
SELECT * FROM headwater.import_range($1, $2)
