-- Begins an import, or finds the one that was begun; `is_same`: as it is asked for now.
WITH made AS (
    INSERT INTO headwater.imports (namespace_id, name, source) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING
    RETURNING cursor, events, true AS is_same
)
SELECT m.* FROM made m
UNION ALL
SELECT i.cursor, i.events, i.source = $3 FROM headwater.imports i WHERE i.namespace_id = $1 AND i.name = $2
