-- The end of the inbox, and whether somebody reads the slot that fills it.
SELECT coalesce((SELECT max(i.inbox_id) FROM headwater.cdc_inbox i WHERE i.namespace_id = $1), 0) AS head,
       EXISTS (SELECT FROM pg_replication_slots s WHERE s.slot_name = $2 AND s.active) AS is_read
