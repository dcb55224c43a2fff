-- The sequence of a namespace, and how far it is.
SELECT sequence::oid AS oid, pg_sequence_last_value(sequence) AS last_value FROM headwater_private.namespaces WHERE namespace = $1
