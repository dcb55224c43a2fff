-- headwater_private.split_claim(one, taken, listed, first_sequence, last_sequence, of_types,
-- one_table, size)
-- Splits events into claims of `size` events each, made like `one`. The last claim gets the rest.
-- If `taken` is NULL, the events are all from first_sequence to last_sequence, without a hole.
-- Otherwise they are those in `taken`, ascending. If `listed`, each claim lists its events.
-- Otherwise each claim is a range, and has all events of these types in it.
-- Raises, locks: nothing. Writes: takes numbers.
CREATE OR REPLACE FUNCTION headwater_private.split_claim(
    one headwater_private.claims, taken bigint[], listed boolean, first_sequence bigint, last_sequence bigint, of_types text[], one_table boolean, size int
) RETURNS headwater_private.claims[] LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    made  headwater_private.claims[] := '{}';
    all_  constant bigint := coalesce(cardinality(taken), split_claim.last_sequence - split_claim.first_sequence + 1);
    from_ bigint := 1;
    to_   bigint;
BEGIN
    one.event_types := split_claim.of_types;
    one.one_table := coalesce(split_claim.one_table, false);
    WHILE from_ <= all_ LOOP
        to_ := least(from_ + size - 1, all_);
        IF taken IS NULL THEN
            one.first_sequence := split_claim.first_sequence + from_ - 1;
            one.last_sequence := split_claim.first_sequence + to_ - 1;
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
