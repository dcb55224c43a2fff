-- Returns the dead letters of a partition that are to be delivered again now, if the server is in
-- the given history.
SELECT * FROM headwater.letters_to_redrive($1, $2, $3, $4)
 WHERE headwater.require_history($5)
