-- Appends one event without a stream, the short way. Returns NULL if the full way is needed.
SELECT headwater.emit_one($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
