-- Appends events without streams, the short way. Returns no row if the full way is needed.
SELECT * FROM headwater.emit_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
