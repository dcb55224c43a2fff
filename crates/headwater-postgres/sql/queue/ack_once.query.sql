-- Finishes a claim, or some of its events, in the caller's transaction. ack_once.sql says when it
-- fails. $5: in the transaction of a handler. If the handler has ended the one that
-- begin_limited.sql marked, it does nothing.
SELECT headwater.ack_once($1, $2, $3, $4)
 WHERE NOT $5 OR pg_catalog.current_setting('headwater.handling', true) = 'on'
