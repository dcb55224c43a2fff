-- Removes a namespace for good.
SELECT headwater.drop_namespace($1, $1, $2)
