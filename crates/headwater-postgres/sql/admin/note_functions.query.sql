-- Records the revision of the functions that the database has.
WITH gone AS (DELETE FROM headwater.functions_revision)
INSERT INTO headwater.functions_revision (revision, checksum) VALUES ($1, $2)
