-- Notes a group as settled ahead of the checkpoint, in a transaction with its effects: in its owner's term and history only, while the checkpoint is where its writer
-- knows it to be ($6, $7), and once: the same group a second time must fail, as in advance_in.sql. A group that begins before a barrier may end behind it: what one
-- transaction appended is not split. An owner that gets on is alive, as in advance.sql.
SELECT headwater.settle_ahead_in($1, $2, $3, $4, $5, $6, $7)
 WHERE headwater.require_history($8)
