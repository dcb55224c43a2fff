-- Lists the migrations that the database has.
SELECT version, checksum FROM headwater.migrations ORDER BY version
