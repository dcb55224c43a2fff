-- Nodes: registered running processes, and event types that none of them handles.
-- Frozen once shipped.

-- Incarnations, of all nodes: none is used twice, also not by a node that was forgotten and registered again.
CREATE SEQUENCE headwater.incarnations CACHE 1 NO CYCLE;

-- One row a node. It is rewritten with every heartbeat, and no column that changes has an index: each new version of a row finds room beside
-- the last.
CREATE TABLE headwater.nodes (
    namespace_id    int NOT NULL REFERENCES headwater.namespaces,
    node_id         text COLLATE "C" NOT NULL CHECK (node_id ~ '^[a-z0-9._-]{1,255}$'),
    -- a new one with each registration: what an older one still sends is refused
    incarnation     bigint NOT NULL,
    -- the same as leases and memberships name it
    instance_id     uuid NOT NULL,
    display_name    text,
    description     text,
    metadata        jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(metadata) = 'object'),
    -- that it handles, as patterns: * stands for any characters
    event_types     text[] NOT NULL DEFAULT '{}',
    heartbeat_every interval NOT NULL,
    -- first of all, and this incarnation
    registered_at   timestamptz NOT NULL,
    started_at      timestamptz NOT NULL,
    last_heartbeat  timestamptz NOT NULL,
    stopped_at      timestamptz,
    PRIMARY KEY (namespace_id, node_id)
) WITH (fillfactor = 40);

-- Event types that wait for a handler while no live node has one, and since when.
CREATE TABLE headwater.unhandled_types (
    namespace_id  int NOT NULL,
    subscriber_id text COLLATE "C" NOT NULL,
    event_type    text COLLATE "C" NOT NULL,
    since         timestamptz NOT NULL,
    -- when that was last looked at
    checked_at    timestamptz NOT NULL,
    PRIMARY KEY (namespace_id, subscriber_id, event_type)
);
