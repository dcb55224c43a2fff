-- The end of the inbox, and what becomes of the slot that fills it: whose it is, whether it can be had, whether it is read.
SELECT coalesce((SELECT max(i.inbox_id) FROM headwater.cdc_inbox i WHERE i.namespace_id = $1), 0) AS head,
       coalesce(s.term, 0) AS term, s.owner_node, coalesce(s.caught_up, false) AS caught_up,
       coalesce(s.reading AND r.active AND s.lease_until > clock_timestamp(), false) AS is_read,
       coalesce(s.owner_instance IS NULL OR s.owner_instance = $3 OR s.lease_until <= clock_timestamp() OR (s.reading AND NOT coalesce(r.active, false)), true)
           AS is_takeable
  FROM (VALUES (1)) one
  LEFT JOIN headwater.cdc_slots s ON s.namespace_id = $1
  LEFT JOIN pg_replication_slots r ON r.slot_name = $2
