-- The functions that the database has.
SELECT revision, checksum FROM headwater.functions_revision
