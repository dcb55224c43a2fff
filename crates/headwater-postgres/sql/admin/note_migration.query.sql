-- Records that a migration was applied.
INSERT INTO headwater.migrations (version, name, checksum) VALUES ($1, $2, $3)
