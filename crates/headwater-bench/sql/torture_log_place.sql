-- The number of a namespace, and the last sequence handed out.
SELECT namespace_id, pg_sequence_last_value(sequence) FROM headwater_private.namespaces WHERE namespace = $1
