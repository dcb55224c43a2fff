-- The counter of a gapless namespace is written once per transaction and not once per append: functions/append_batch.sql says why that is right.

ALTER TABLE headwater_private.counters
    -- the transaction that wrote it last
    ADD COLUMN moved_by bigint NOT NULL DEFAULT 0,
    -- that transaction went on appending, so the last event counts; never so in what was committed, unless triggers were switched off
    ADD COLUMN is_open  boolean NOT NULL DEFAULT false;

-- Its text is with the functions.
CREATE FUNCTION headwater_private.close_counter() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER close_counter AFTER UPDATE ON headwater_private.counters DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.is_open) EXECUTE FUNCTION headwater_private.close_counter();
