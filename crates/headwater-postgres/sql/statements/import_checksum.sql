-- What an import has brought in: how many events, and the sum of their hashes, as in import/checksum.sql.
SELECT * FROM headwater.import_checksum($1, $2, $3, $4)
