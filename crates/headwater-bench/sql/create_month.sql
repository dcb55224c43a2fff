-- The partition of so many months ago ($2).
SELECT headwater_private.create_leaf($1, now() - $2::int * interval '1 month')
