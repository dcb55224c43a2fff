-- Begins the import of an exported namespace. Returns its name.
SELECT headwater.import_namespace($1, $2)
