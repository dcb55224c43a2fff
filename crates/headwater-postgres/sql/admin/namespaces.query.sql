-- Lists all namespaces that the role was granted, by name.
SELECT * FROM headwater.list_namespaces()
