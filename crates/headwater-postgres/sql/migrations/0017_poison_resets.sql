-- Whoever is to be told of poison is told once, whichever node finds it.
-- Frozen once shipped.

-- What was found before there was anybody to tell is old news.
ALTER TABLE headwater.poison_events ADD COLUMN notified boolean NOT NULL DEFAULT true;
ALTER TABLE headwater.poison_events ALTER COLUMN notified SET DEFAULT false;
