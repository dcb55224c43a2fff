-- Where consumers write one row for each event.
CREATE TABLE IF NOT EXISTS effects (global_sequence bigint NOT NULL);
TRUNCATE effects;
