-- headwater.all_groups()
-- Returns the groups of all namespaces in which the caller may consume, in one statement, as
-- headwater.group_status does for one: how many members are alive, how many partitions they share
-- and own, and the change that is under way. headwater.subscriber_lag says how far they are.
-- Raises, locks, writes: nothing.
CREATE OR REPLACE FUNCTION headwater.all_groups(caller headwater.caller DEFAULT current_user)
RETURNS TABLE (namespace text, subscriber_id text, members bigint, partitions bigint, owned bigint, resize_to int, barrier bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET jit = off SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT n.namespace, s.subscriber_id, coalesce(m.members, 0), s.partitions, s.owned, s.resize_to, s.barrier
      FROM (SELECT s.namespace_id, s.subscriber_id, count(*) AS partitions, max(s.resize_to) AS resize_to, max(s.barrier) AS barrier,
                   count(*) FILTER (WHERE s.owner_incarnation IS NOT NULL AND s.lease_until > clock_timestamp()) AS owned
              FROM headwater_private.subscribers s WHERE s.mode = 'partitioned' GROUP BY s.namespace_id, s.subscriber_id) s
      JOIN headwater_private.namespaces n ON n.namespace_id = s.namespace_id
      JOIN unnest(headwater_private.granted_to(caller, 'consumer')) AS g(namespace_id) ON g.namespace_id = n.namespace_id
      LEFT JOIN (SELECT m.namespace_id, m.subscriber_id, count(*) AS members FROM headwater_private.members m
                  WHERE m.member_until > clock_timestamp() GROUP BY m.namespace_id, m.subscriber_id) m
             ON m.namespace_id = s.namespace_id AND m.subscriber_id = s.subscriber_id
     ORDER BY n.namespace, s.subscriber_id;
END
$$;
