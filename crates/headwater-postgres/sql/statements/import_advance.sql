-- Moves an import on, in the transaction that appends its events: from where it is known to be ($3), or not at all.
UPDATE headwater.imports i
   SET cursor = $4, events = i.events + $5, first_sequence = least(i.first_sequence, $6), last_sequence = greatest(i.last_sequence, $7),
       updated_at = clock_timestamp(), verified_at = NULL
 WHERE i.namespace_id = $1 AND i.name = $2 AND i.cursor IS NOT DISTINCT FROM $3
