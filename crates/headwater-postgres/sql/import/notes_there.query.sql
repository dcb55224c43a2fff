-- Returns whether the notes ($1) of a table ($2) exist, and whether the trigger ($3) that writes
-- them is on.
SELECT to_regclass($1) IS NOT NULL AS notes,
       EXISTS (SELECT FROM pg_catalog.pg_trigger t WHERE t.tgrelid = to_regclass($2) AND t.tgname = $3 AND t.tgenabled IN ('O', 'A')) AS trigger
