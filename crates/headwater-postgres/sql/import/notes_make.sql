-- Makes what notes each new row of a table, in the transaction that adds the row. CREATE TRIGGER
-- waits for all who have written to the table and are still open, so a row without a note is older
-- than the trigger, and committed. Writers need no right on the notes. What stands in braces is put
-- in by src/import/texts.rs.
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
