-- Dead letters of a partition to deliver again now.
SELECT * FROM headwater.letters_to_redrive($1, $2, $3, $4)
