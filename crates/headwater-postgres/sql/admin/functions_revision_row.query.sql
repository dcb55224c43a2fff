-- Returns the revision of the functions that the database has.
SELECT revision, checksum FROM headwater.functions_revision
