-- Moves a checkpoint as advance.sql and advance_in.sql do ($20: as advance_in.sql), when chunks of a
-- long ledger change.
SELECT 1 WHERE CASE WHEN NOT $20 OR pg_catalog.current_setting('headwater.handling', true) = 'on'
                    THEN headwater.advance_chunks($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20) END
