-- Ends the pin after an error, in one message, so that the server connection is still the same.
ROLLBACK; DEALLOCATE ALL
