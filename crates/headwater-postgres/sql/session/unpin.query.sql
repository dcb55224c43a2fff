-- Ends the pin, and leaves no prepared statements behind.
DEALLOCATE ALL; COMMIT
