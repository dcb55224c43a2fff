-- Where the events of an import lie.
SELECT i.events, coalesce(i.first_sequence, 0) AS first_sequence, coalesce(i.last_sequence, 0) AS last_sequence
  FROM headwater.imports i WHERE i.namespace_id = $1 AND i.name = $2
