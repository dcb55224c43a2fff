-- Ends it, and leaves no prepared statements behind.
DEALLOCATE ALL; COMMIT
