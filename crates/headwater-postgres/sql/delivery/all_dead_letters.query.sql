-- A page of the dead letters of all namespaces.
SELECT * FROM headwater.all_dead_letters($1, $2, $3, $4, $5, $6, $7, $8, $9)
