-- Returns whether events of a key have to wait, if the server is in the given history.
SELECT * FROM headwater.is_parked($1, $2, $3, $4)
 WHERE headwater.require_history($5)
