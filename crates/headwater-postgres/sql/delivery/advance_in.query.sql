-- Moves a checkpoint in the transaction of a handler, only in its owner's term and history, and only
-- from where its writer knows it to be ($11, $12). advance_in.sql says why. If the handler has ended
-- the transaction that begin_limited.sql marked, it does nothing.
SELECT 1 WHERE CASE WHEN pg_catalog.current_setting('headwater.handling', true) = 'on'
                    THEN headwater.advance_in($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) END
