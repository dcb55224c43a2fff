SET password_encryption = 'scram-sha-256';
ALTER ROLE headwater PASSWORD '{password}'
