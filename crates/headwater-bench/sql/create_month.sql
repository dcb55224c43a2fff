-- The month of so many months ago ($2), as if the namespace had been there then.
WITH lowered AS (
    UPDATE headwater_private.namespaces n
       SET tail_from = least(n.tail_from, (date_trunc('month', now() AT TIME ZONE 'UTC') - $2::int * interval '1 month') AT TIME ZONE 'UTC')
     WHERE n.namespace_id = $1
)
SELECT headwater_private.create_leaf($1, now() - $2::int * interval '1 month')
