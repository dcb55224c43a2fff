-- headwater.lease_partitions(namespace, subscriber_id, worker, partitions, lease, node)
-- Public: in docs/sql.md.
-- Makes a worker the owner of partitions of a subscriber, for the length of a lease, or keeps it
-- the owner. Returns the partitions that it owns now, each with the term that every other call for
-- it must name. A call before the lease ends renews it. Workers are members of the subscriber's
-- group, beside each other and beside nodes: each gets its share, and this call releases what a
-- worker has beyond its share. Of an exclusive subscriber, one worker gets partition 0, and the
-- others get nothing.
--   worker      a random id of the process: two processes never share one
--   partitions  exactly these partitions, whatever other members exist (NULL: the worker's share)
--   node        what operators see as the owner (NULL: the worker)
-- The lease alone decides, by this server's clock: the function needs no session of its own, and
-- takes no session locks.
-- Raises: WH001, WH002, WH012, WH013. Locks: rows that it changes, never waiting for owners.
-- Writes: subscribers, members, where something changed.
CREATE OR REPLACE FUNCTION headwater.lease_partitions(
    namespace text, subscriber_id text, worker uuid, partitions int[] DEFAULT NULL, lease interval DEFAULT '30 s', node text DEFAULT NULL,
    caller headwater.caller DEFAULT current_user
) RETURNS TABLE (partition int, term bigint, paused boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    ns      headwater_private.namespaces := headwater_private.open_namespace(lease_partitions.namespace, caller, 'consumer');
    who     text := coalesce(lease_partitions.node, lease_partitions.worker::text);
    report  constant jsonb := '{"rate": 0.0, "state": "live", "transactional": true}';
    mode    text;
    ms      bigint;
    grp     record;
    share   int;
    wanted  int[];
    owned   int[];
    terms   bigint[];
    surplus int[];
BEGIN
    IF lease_partitions.worker IS NULL THEN
        PERFORM headwater_private.fail('WH002', 'invalid worker NULL', jsonb_build_object('what', 'worker', 'value', NULL),
            'worker is a random id that the process keeps: gen_random_uuid()');
    END IF;
    PERFORM headwater_private.check_name('node', who, 255);
    PERFORM headwater_private.check_interval('lease', lease_partitions.lease, '1 ms', '1 day', 'a lease is 1 ms to 1 day');
    ms := ceil(extract(epoch FROM lease_partitions.lease) * 1000);
    PERFORM headwater.begin_history();
    mode := headwater_private.ordered_mode(ns.namespace_id, lease_partitions.subscriber_id);
    IF lease_partitions.partitions IS NOT NULL THEN
        IF EXISTS (SELECT FROM unnest(lease_partitions.partitions) AS p(partition)
                    WHERE NOT EXISTS (SELECT FROM headwater_private.subscribers s
                                       WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = lease_partitions.subscriber_id
                                         AND s.partition = p.partition)) THEN
            PERFORM headwater_private.fail('WH002', format('invalid partitions %s', left(lease_partitions.partitions::text, 80)),
                jsonb_build_object('what', 'partitions', 'value', left(lease_partitions.partitions::text, 80)),
                'partitions are numbered from 0; headwater.group_status shows them');
        END IF;
        wanted := ARRAY(SELECT DISTINCT p.partition FROM unnest(lease_partitions.partitions) AS p(partition) ORDER BY 1);
    ELSIF mode = 'exclusive' THEN
        wanted := '{0}';
    ELSE
        SELECT j.partitions, j.members, j.halted INTO grp
          FROM headwater.join_groups(lease_partitions.namespace, who, lease_partitions.worker, ms, ARRAY[lease_partitions.subscriber_id], false, false) j;
        -- Every member computes the same shares.
        share := CASE WHEN grp.halted THEN 0
                      ELSE grp.partitions / cardinality(grp.members)
                           + (array_position(grp.members, lease_partitions.worker) <= grp.partitions % cardinality(grp.members))::int END;
        wanted := ARRAY(SELECT p FROM generate_series(0, grp.partitions - 1) p);
    END IF;
    SELECT coalesce(array_agg(s.partition ORDER BY s.partition), '{}') INTO owned FROM headwater_private.subscribers s
     WHERE s.namespace_id = ns.namespace_id AND s.subscriber_id = lease_partitions.subscriber_id AND s.owner_incarnation = lease_partitions.worker;
    surplus := CASE WHEN share IS NULL THEN ARRAY(SELECT o FROM unnest(owned) o WHERE o <> ALL (wanted)) ELSE owned[share + 1:] END;
    IF surplus <> '{}' THEN
        PERFORM headwater_private.release_unlocked(ns.namespace_id, lease_partitions.subscriber_id, lease_partitions.worker, surplus);
    END IF;
    owned := ARRAY(SELECT o FROM unnest(owned) o WHERE o <> ALL (surplus));
    -- Members that ask at the same time begin at different places, so they rarely want the same
    -- partition.
    wanted := owned || CASE WHEN cardinality(owned) >= share THEN '{}'
                            ELSE ARRAY(SELECT w.partition FROM unnest(wanted) AS w(partition) WHERE w.partition <> ALL (owned)
                                        ORDER BY md5(lease_partitions.worker::text || ' ' || w.partition)) END;
    -- Read the present terms: a partition that was lost in the meantime is requested anew.
    terms := ARRAY(SELECT s.term FROM unnest(wanted) WITH ORDINALITY AS w(partition, place)
                     LEFT JOIN headwater_private.subscribers s
                       ON s.namespace_id = ns.namespace_id AND s.subscriber_id = lease_partitions.subscriber_id AND s.partition = w.partition
                      AND s.owner_incarnation = lease_partitions.worker
                    ORDER BY w.place);
    IF wanted = '{}' THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT k.partition, k.term, k.paused
      FROM headwater.keep_leases(lease_partitions.namespace, who, lease_partitions.worker, ms,
               array_fill(lease_partitions.subscriber_id, ARRAY[cardinality(wanted)]), wanted, terms,
               array_fill(share, ARRAY[cardinality(wanted)]), array_fill(report, ARRAY[cardinality(wanted)]),
               array_fill(false, ARRAY[cardinality(wanted)]), false) k
     WHERE k.term IS NOT NULL
     ORDER BY k.partition;
END
$$;
