-- Deletes the notes of bundles that the checkpoint has passed. forget_ahead.sql says which.
SELECT headwater.forget_ahead($1, $2, $3)
