-- Returns how far an import has followed its table; with a token ($3), it begins to.
SELECT * FROM headwater.import_follow($1, $2, $3)
