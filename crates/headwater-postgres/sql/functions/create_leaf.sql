-- headwater.create_leaf(namespace_id, month)
-- Makes the partition that holds one month of a namespace's events, if there is none for that month yet.
-- Locks: SHARE UPDATE EXCLUSIVE on the namespace's partition (readers and writers go on), and one advisory
-- lock against other creators. Writes: the leaf and its indexes. Raises: nothing of its own.
CREATE OR REPLACE FUNCTION headwater.create_leaf(namespace_id int, month timestamptz)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    parent   text := format('events_n%s', namespace_id);
    lower_at timestamptz := date_trunc('month', month, 'UTC');
    upper_at timestamptz := (date_trunc('month', month AT TIME ZONE 'UTC') + interval '1 month') AT TIME ZONE 'UTC';
    leaf     text := format('%s_%s', parent, to_char(lower_at AT TIME ZONE 'UTC', 'YYYYMM'));
BEGIN
    -- 0x48580000: Headwater's class of locks on partitions
    PERFORM pg_advisory_xact_lock(1213726720, create_leaf.namespace_id);
    IF to_regclass(format('headwater.%I', leaf)) IS NOT NULL
       OR EXISTS (SELECT FROM headwater.leaves(create_leaf.namespace_id) l WHERE l.starts_at < upper_at AND l.ends_at > lower_at) THEN
        RETURN;
    END IF;
    -- Made first, attached then: CREATE TABLE … PARTITION OF would lock everybody out.
    EXECUTE format('CREATE TABLE headwater.%I (LIKE headwater.events INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', leaf);
    PERFORM headwater.equip_leaf(leaf);
    EXECUTE format('ALTER TABLE headwater.%I ATTACH PARTITION headwater.%I FOR VALUES FROM (%L) TO (%L)',
        parent, leaf, lower_at, upper_at);
END
$$;
