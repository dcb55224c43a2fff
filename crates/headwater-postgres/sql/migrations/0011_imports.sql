-- Imports: how far events of other tables were brought in.
-- Frozen once shipped.

CREATE TABLE headwater.imports (
    namespace_id   int NOT NULL REFERENCES headwater.namespaces,
    -- as the header `import` of its events has it
    name           text COLLATE "C" NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 255),
    -- from where, and how columns become fields: a later run must ask for the same
    source         jsonb NOT NULL,
    -- the columns by which the source is ordered, of the last row that was imported; written with its events
    cursor         text[],
    events         bigint NOT NULL DEFAULT 0,
    first_sequence bigint,
    last_sequence  bigint,
    started_at     timestamptz NOT NULL DEFAULT now(),
    updated_at     timestamptz NOT NULL DEFAULT now(),
    -- when all was found to be there; the next batch takes it back
    verified_at    timestamptz,
    PRIMARY KEY (namespace_id, name)
);
ALTER TABLE headwater.imports ENABLE ROW LEVEL SECURITY;
CREATE POLICY admins ON headwater.imports USING (namespace_id = ANY ((SELECT headwater.granted('admin'))::int[]));
