-- headwater_private.split_claim(one, taken, listed, size)
-- Claims of `size` events each, the last one of the rest, made as `one` is. NULL for taken: of all events from its first_sequence to its last_sequence, which
-- follow each other. Otherwise of those taken, ascending: by name if `listed`, or else as ranges in which they are all of one.event_types.
-- Raises, locks: nothing. Writes: takes numbers.
CREATE OR REPLACE FUNCTION headwater_private.split_claim(one headwater_private.claims, taken bigint[], listed boolean, size int)
RETURNS headwater_private.claims[] LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    made  headwater_private.claims[] := '{}';
    first constant bigint := one.first_sequence;
    all_  constant bigint := coalesce(cardinality(taken), one.last_sequence - one.first_sequence + 1);
    from_ bigint := 1;
    to_   bigint;
BEGIN
    WHILE from_ <= all_ LOOP
        to_ := least(from_ + size - 1, all_);
        IF taken IS NULL THEN
            one.first_sequence := first + from_ - 1;
            one.last_sequence := first + to_ - 1;
        ELSE
            one.first_sequence := taken[from_];
            one.last_sequence := taken[to_];
            one.sequences := CASE WHEN listed THEN taken[from_:to_] END;
        END IF;
        one.number := nextval('headwater_private.claim_numbers');
        one.claim_id := gen_random_uuid();
        made := made || one;
        from_ := to_ + 1;
    END LOOP;
    RETURN made;
END
$$;
