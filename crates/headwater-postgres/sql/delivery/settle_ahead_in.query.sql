-- Records a bundle as settled ahead of the checkpoint, in a transaction with its effects, only in
-- its owner's term and history. settle_ahead_in.sql says more.
SELECT headwater.settle_ahead_in($1, $2, $3, $4, $5, $6, $7)
 WHERE headwater.require_history($8)
