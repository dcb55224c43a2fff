-- Dead letters of a partition to deliver again now.
-- In a history only.
SELECT * FROM headwater.letters_to_redrive($1, $2, $3, $4)
 WHERE headwater.require_history($5)
