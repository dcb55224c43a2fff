-- Reads one namespace.
SELECT * FROM headwater.list_namespaces($1)
