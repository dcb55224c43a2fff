-- Lists dead letters.
SELECT * FROM headwater.list_dead_letters($1, $2, $3, $4, $5, $6, $7, $8, $9)
