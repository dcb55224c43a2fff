-- Records that an import was found to be complete.
SELECT headwater.import_verified($1, $2)
