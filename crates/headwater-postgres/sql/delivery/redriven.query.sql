-- Records that a dead letter was delivered again, only in its owner's term and history.
-- redriven.sql says what it returns. $10: in the transaction of a handler. If the handler has ended
-- the one that begin_limited.sql marked, it does nothing.
SELECT * FROM headwater.redriven($1, $2, $3, $4, $5, $6, $7, $8)
 WHERE (NOT $10 OR pg_catalog.current_setting('headwater.handling', true) = 'on') AND headwater.require_history($9)
