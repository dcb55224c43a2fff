-- Prepared statements outlive a transaction, and the next client of a pooler's server connection may give others the same names.
DEALLOCATE ALL
