-- Schedules: cron rules and single due times that append events, and the history of their runs.
-- Frozen once shipped.

-- A cron expression, parsed (functions/cron_fields.sql). Each array is sorted and holds no value twice.
CREATE TYPE headwater.cron AS (
    seconds    int[],
    minutes    int[],
    hours      int[],
    -- 1 to 31; 32 is a month's last day
    days       int[],
    months     int[],
    -- 0 (Sunday) to 6; 10 n + d: the nth of its month; 70 + d: the last one
    weekdays   int[],
    -- a day of the month or of the week is enough, since both are restricted
    either_day boolean,
    -- no wildcard and no step in its time of day: decides what it does when clocks are changed (functions/cron_after.sql)
    fixed_time boolean
);

CREATE TABLE headwater.schedules (
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- no due time before or after these
    starts_at       timestamptz,
    ends_at         timestamptz,
    -- of a schedule without a cron expression, which is due once
    due_at          timestamptz,
    -- NULL: it is never due again
    next_due_at     timestamptz,
    -- when next_due_at is tried: then, and after a failure later
    fire_at         timestamptz,
    -- the last due time that was fired
    last_due_at     timestamptz,
    -- of pg_cron, if that triggers it too
    job_id          bigint,
    namespace_id    int NOT NULL REFERENCES headwater.namespaces,
    missed_limit    int NOT NULL CHECK (missed_limit BETWEEN 1 AND 1000),
    -- how often next_due_at could not be appended
    failures        int NOT NULL DEFAULT 0,
    -- of the payload, as text: what is appended at once is bounded
    bytes           int NOT NULL,
    active          boolean NOT NULL,
    task_id         uuid NOT NULL UNIQUE,
    name            text COLLATE "C" NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 255),
    cron_expression text,
    timezone        text NOT NULL,
    event_type      text COLLATE "C" NOT NULL CHECK (octet_length(event_type) BETWEEN 1 AND 255),
    stream_id       text COLLATE "C" CHECK (octet_length(stream_id) BETWEEN 1 AND 512),
    key             text COLLATE "C" CHECK (octet_length(key) BETWEEN 1 AND 512),
    missed          text NOT NULL CHECK (missed IN ('fire_once', 'fire_all', 'skip')),
    trigger         text NOT NULL CHECK (trigger IN ('node', 'pg_cron')),
    -- of the last failure
    error           text,
    payload         jsonb NOT NULL,
    PRIMARY KEY (namespace_id, name),
    CHECK ((cron_expression IS NULL) <> (due_at IS NULL))
) WITH (fillfactor = 70);
CREATE INDEX schedules_next ON headwater.schedules (namespace_id, fire_at, task_id) WHERE active;

-- What became of due times: the last 100 of a schedule.
CREATE TABLE headwater.schedule_runs (
    due_at          timestamptz NOT NULL,
    -- when this outcome was written
    ran_at          timestamptz NOT NULL,
    -- of those skipped together, the last; due_at is the first
    skipped_until   timestamptz,
    global_sequence bigint,
    attempts        int NOT NULL,
    task_id         uuid NOT NULL REFERENCES headwater.schedules (task_id) ON DELETE CASCADE,
    -- the id of its event, if it has one
    run_id          uuid NOT NULL,
    outcome         text NOT NULL CHECK (outcome IN ('fired', 'skipped', 'manual', 'failed')),
    error           text,
    PRIMARY KEY (task_id, run_id)
);
CREATE INDEX schedule_runs_last ON headwater.schedule_runs (task_id, ran_at, run_id);
