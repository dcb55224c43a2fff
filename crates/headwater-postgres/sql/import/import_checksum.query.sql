-- Returns how many events an import has brought in, and the sum of their hashes, as in
-- source_checksum.query.sql.
SELECT * FROM headwater.import_checksum($1, $2, $3, $4)
