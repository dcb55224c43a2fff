-- Appends events without streams, the short way; no row if care is needed.
SELECT * FROM headwater.emit_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
