-- Slots of Headwater: how many somebody reads, and how many were to go with their session.
SELECT count(*) FILTER (WHERE active), count(*) FILTER (WHERE temporary)
  FROM pg_replication_slots WHERE database = current_database() AND slot_name LIKE 'headwater\_%'
