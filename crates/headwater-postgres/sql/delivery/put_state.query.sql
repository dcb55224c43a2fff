-- Stores the state of an id, or deletes it, if the server is in the given history.
SELECT headwater.put_state($1, $2, $3, $4, $5, $6, $7, $8)
 WHERE headwater.require_history($9)

