-- The second statement of an emit in the loop on pgmq.
INSERT INTO event_log (namespace, event_type, payload, producer_node_id, metadata)
VALUES ($1, $2, $3, $4, jsonb_build_object('messageId', $5::bigint)) RETURNING event_id
