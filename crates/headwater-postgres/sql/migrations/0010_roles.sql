-- Roles: who may do what in which namespace. What a row is, and who sees it, is decided here by row-level security; which tables a role may touch at
-- all, by functions/apply_grants.sql. The owner of these tables, and superusers, are not asked.
-- Frozen once shipped.

CREATE TABLE headwater.grants (
    namespace_id int NOT NULL REFERENCES headwater.namespaces,
    -- an oid that is dumped as a name: it survives a rename, and a new role with an old name does not inherit
    role         regrole NOT NULL,
    kind         text COLLATE "C" NOT NULL CHECK (kind IN ('producer', 'consumer', 'admin')),
    granted_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace_id, role, kind)
);
ALTER TABLE headwater.grants ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_grants ON headwater.grants FOR SELECT USING (pg_has_role(role::oid, 'USAGE'));

-- Shown by a function that runs as its caller to one that runs as the owner: whoever could write such a row may produce in that namespace.
CREATE TABLE headwater.rights (
    namespace_id   int NOT NULL,
    transaction_id xid8 NOT NULL DEFAULT pg_current_xact_id()
);

-- Replaced by functions/granted.sql. Policies need it to be there.
CREATE FUNCTION headwater.granted(kind text) RETURNS int[] LANGUAGE sql STABLE AS $$
    SELECT '{}'::int[]
$$;

ALTER TABLE headwater.namespaces ENABLE ROW LEVEL SECURITY;
CREATE POLICY granted ON headwater.namespaces FOR SELECT USING (namespace_id = ANY ((SELECT headwater.granted(NULL))::int[]));
CREATE POLICY admins ON headwater.namespaces FOR UPDATE USING (namespace_id = ANY ((SELECT headwater.granted('admin'))::int[]));

-- An append is of its own transaction. Producers see what theirs has written, and nothing else.
ALTER TABLE headwater.events ENABLE ROW LEVEL SECURITY;
CREATE POLICY readers ON headwater.events FOR SELECT USING (
    namespace_id = ANY ((SELECT headwater.granted('consumer'))::int[])
    OR (transaction_id = pg_current_xact_id_if_assigned()::text::bigint
        AND namespace_id = ANY ((SELECT headwater.granted('producer'))::int[])));
CREATE POLICY producers ON headwater.events FOR INSERT WITH CHECK (
    transaction_id = pg_current_xact_id_if_assigned()::text::bigint
    AND namespace_id = ANY ((SELECT headwater.granted('producer'))::int[]));

ALTER TABLE headwater.counters ENABLE ROW LEVEL SECURITY;
CREATE POLICY readers ON headwater.counters FOR SELECT USING (namespace_id = ANY ((SELECT headwater.granted(NULL))::int[]));
CREATE POLICY producers ON headwater.counters FOR UPDATE USING (namespace_id = ANY ((SELECT headwater.granted('producer'))::int[]));

ALTER TABLE headwater.rights ENABLE ROW LEVEL SECURITY;
CREATE POLICY producers ON headwater.rights FOR INSERT WITH CHECK (
    transaction_id = pg_current_xact_id() AND namespace_id = ANY ((SELECT headwater.granted('producer'))::int[]));

ALTER TABLE headwater.streams ENABLE ROW LEVEL SECURITY;
CREATE POLICY producers ON headwater.streams USING (namespace_id = ANY ((SELECT headwater.granted('producer'))::int[]));
ALTER TABLE headwater.due_events ENABLE ROW LEVEL SECURITY;
CREATE POLICY producers ON headwater.due_events USING (namespace_id = ANY ((SELECT headwater.granted('producer'))::int[]));

ALTER TABLE headwater.subscribers ENABLE ROW LEVEL SECURITY;
CREATE POLICY consumers ON headwater.subscribers USING (namespace_id = ANY ((SELECT headwater.granted('consumer'))::int[]));
ALTER TABLE headwater.members ENABLE ROW LEVEL SECURITY;
CREATE POLICY consumers ON headwater.members USING (namespace_id = ANY ((SELECT headwater.granted('consumer'))::int[]));
ALTER TABLE headwater.claims ENABLE ROW LEVEL SECURITY;
CREATE POLICY consumers ON headwater.claims USING (namespace_id = ANY ((SELECT headwater.granted('consumer'))::int[]));
ALTER TABLE headwater.retries ENABLE ROW LEVEL SECURITY;
CREATE POLICY consumers ON headwater.retries USING (namespace_id = ANY ((SELECT headwater.granted('consumer'))::int[]));
ALTER TABLE headwater.dead_letters ENABLE ROW LEVEL SECURITY;
CREATE POLICY consumers ON headwater.dead_letters USING (namespace_id = ANY ((SELECT headwater.granted('consumer'))::int[]));
ALTER TABLE headwater.permanent_gaps ENABLE ROW LEVEL SECURITY;
CREATE POLICY consumers ON headwater.permanent_gaps USING (namespace_id = ANY ((SELECT headwater.granted('consumer'))::int[]));
ALTER TABLE headwater.states ENABLE ROW LEVEL SECURITY;
CREATE POLICY consumers ON headwater.states USING (namespace_id = ANY ((SELECT headwater.granted('consumer'))::int[]));
ALTER TABLE headwater.settled_ahead ENABLE ROW LEVEL SECURITY;
CREATE POLICY consumers ON headwater.settled_ahead USING (namespace_id = ANY ((SELECT headwater.granted('consumer'))::int[]));
ALTER TABLE headwater.unhandled_types ENABLE ROW LEVEL SECURITY;
CREATE POLICY consumers ON headwater.unhandled_types USING (namespace_id = ANY ((SELECT headwater.granted('consumer'))::int[]));

-- A node may do one or the other.
ALTER TABLE headwater.nodes ENABLE ROW LEVEL SECURITY;
CREATE POLICY granted ON headwater.nodes USING (namespace_id = ANY ((SELECT headwater.granted(NULL))::int[]));

-- Who fires a schedule appends its event.
ALTER TABLE headwater.schedules ENABLE ROW LEVEL SECURITY;
CREATE POLICY producers ON headwater.schedules USING (namespace_id = ANY ((SELECT headwater.granted('producer'))::int[]));
ALTER TABLE headwater.schedule_runs ENABLE ROW LEVEL SECURITY;
CREATE POLICY producers ON headwater.schedule_runs USING (EXISTS (SELECT FROM headwater.schedules s WHERE s.task_id = schedule_runs.task_id));

-- Written by the owner alone.
ALTER TABLE headwater.months ENABLE ROW LEVEL SECURITY;
CREATE POLICY granted ON headwater.months FOR SELECT USING (namespace_id = ANY ((SELECT headwater.granted(NULL))::int[]));
ALTER TABLE headwater.losses ENABLE ROW LEVEL SECURITY;
CREATE POLICY consumers ON headwater.losses FOR SELECT USING (namespace_id = ANY ((SELECT headwater.granted('consumer'))::int[]));
