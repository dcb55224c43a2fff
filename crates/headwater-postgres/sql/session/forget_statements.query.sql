-- Prepared statements outlive a transaction, and the next client of a pooler's server connection
-- may use the same names for other statements.
DEALLOCATE ALL
