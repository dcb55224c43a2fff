CREATE TABLE IF NOT EXISTS mails (id bigserial PRIMARY KEY, recipient text NOT NULL);
