-- Lets a role work in a namespace.
SELECT headwater.grant_role($1, $2, $3)
