-- headwater_private.create_leaf(namespace_id, month)
-- Makes the partition that holds one month of a namespace's events, if there is none for that month yet.
-- Locks: SHARE UPDATE EXCLUSIVE on the namespace's partition (readers and writers go on), and a
-- latch against other creators. Writes: the leaf and its indexes. Raises: nothing of its own.
CREATE OR REPLACE FUNCTION headwater_private.create_leaf(namespace_id int, month timestamptz)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    parent   text := format('events_n%s', namespace_id);
    lower_at timestamptz := date_trunc('month', month, 'UTC');
    upper_at timestamptz := (date_trunc('month', month AT TIME ZONE 'UTC') + interval '1 month') AT TIME ZONE 'UTC';
    leaf     text := format('%s_%s', parent, to_char(lower_at AT TIME ZONE 'UTC', 'YYYYMM'));
BEGIN
    PERFORM headwater_private.latch(create_leaf.namespace_id, 'months');
    IF to_regclass(format('headwater_private.%I', leaf)) IS NOT NULL
       OR EXISTS (SELECT FROM headwater_private.leaves(create_leaf.namespace_id) l WHERE l.starts_at < upper_at AND l.ends_at > lower_at) THEN
        RETURN;
    END IF;
    -- Made first, attached then: CREATE TABLE … PARTITION OF would lock everybody out.
    EXECUTE format('CREATE TABLE headwater_private.%I (LIKE headwater_private.events INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', leaf);
    PERFORM headwater_private.equip_leaf(leaf);
    EXECUTE format('ALTER TABLE headwater_private.%I ATTACH PARTITION headwater_private.%I FOR VALUES FROM (%L) TO (%L)',
        parent, leaf, lower_at, upper_at);
END
$$;
