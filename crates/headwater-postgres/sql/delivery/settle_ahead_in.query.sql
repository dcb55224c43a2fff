-- Records a bundle as settled ahead of the checkpoint, in the transaction of its handler, only in its
-- owner's term and history. settle_ahead_in.sql says more. If the handler has ended the transaction
-- that begin_limited.sql marked, it does nothing.
SELECT headwater.settle_ahead_in($1, $2, $3, $4, $5, $6, $7)
 WHERE pg_catalog.current_setting('headwater.handling', true) = 'on' AND headwater.require_history($8)
