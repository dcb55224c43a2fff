-- Histories: what identifies a server's past.
-- Frozen once shipped.

-- The token of the present history. UNLOGGED, so that it goes with whatever may take back sequences that were handed out: PostgreSQL empties such a table
-- when it recovers from a crash, and when a standby is promoted. Whoever finds none writes one, and waits for nobody: if several do at once, the highest
-- number counts.
-- Their numbers come from a sequence of its own, which is logged: an unlogged one cannot be used after the promotion of a standby.
CREATE SEQUENCE headwater_private.history_numbers CACHE 1 NO CYCLE;
CREATE UNLOGGED TABLE headwater_private.histories (
    number bigint PRIMARY KEY,
    token  uuid NOT NULL
);

-- A sequence that is handed out again is another event's: letters are told apart by the event.
ALTER TABLE headwater_private.dead_letters DROP CONSTRAINT dead_letters_pkey,
    ADD PRIMARY KEY (namespace_id, subscriber_id, global_sequence, event_id);

-- An event may end the process of its handler. An owner that ends without saying so leaves `handling` behind; whoever comes next writes down which event
-- it begins, and how often that was begun.
ALTER TABLE headwater_private.subscribers
    ADD COLUMN handling    boolean NOT NULL DEFAULT false,
    ADD COLUMN begun_event uuid,
    ADD COLUMN begun_times int NOT NULL DEFAULT 0;
