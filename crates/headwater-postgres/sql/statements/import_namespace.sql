-- Begins to bring in an exported namespace; answers with its name.
SELECT headwater.import_namespace($1, $2)
