-- Creates what notes each new row of a table, in the transaction that adds the row. CREATE TRIGGER
-- waits for all open transactions that have written to the table, so a row without a note is older
-- than the trigger, and committed. Writers need no privileges on the notes. src/import/texts.rs
-- fills in what stands in braces.
-- Locks: the table, SHARE ROW EXCLUSIVE, until the transaction ends. Needs TRIGGER on the table and
-- CREATE on its schema.
CREATE TABLE {notes} (note bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, {typed});
CREATE INDEX ON {notes} ({columns});
CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $headwater_note$
BEGIN
    INSERT INTO {notes} ({columns}) VALUES ({new});
    RETURN NULL;
END
$headwater_note$;
REVOKE ALL ON FUNCTION {function}() FROM PUBLIC;
CREATE TRIGGER {trigger} AFTER INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION {function}()
