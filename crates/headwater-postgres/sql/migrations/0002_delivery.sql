-- Delivery: subscribers, permanent gaps, dead letters, states.
-- Frozen once shipped.

-- Terms, of all subscribers: none is used twice, also not by a subscriber that was removed and registered again.
CREATE SEQUENCE headwater.terms CACHE 1 NO CYCLE;

-- One row a subscriber (later: and partition). It is rewritten with every checkpoint: pages are kept mostly empty, and no column that
-- changes has an index, so that each new version of a row finds room beside the last and touches no index.
CREATE TABLE headwater.subscribers (
    namespace_id      int NOT NULL REFERENCES headwater.namespaces,
    subscriber_id     text COLLATE "C" NOT NULL CHECK (octet_length(subscriber_id) BETWEEN 1 AND 255),
    partition         int NOT NULL DEFAULT 0 CHECK (partition >= 0),
    -- everything at or below is settled, but for the pending gaps
    position          bigint NOT NULL CHECK (position >= 0),
    last_event_id     uuid,
    -- the ledger of gaps that were passed and are not closed: first, last, first, last, …
    pending_gaps      bigint[] NOT NULL DEFAULT '{}' CHECK (cardinality(pending_gaps) % 2 = 0),
    -- a new one with each owner and each reset: what an older owner still writes matches nothing
    term              bigint NOT NULL,
    -- the term of its registration, or of its last reset
    began_in_term     bigint NOT NULL,
    owner_node        text,
    owner_incarnation uuid,
    lease_until       timestamptz,
    -- how long the lease is: an owner that moves its checkpoint renews it
    lease             interval,
    -- the owner's session holds the advisory lock: whoever gets it knows that the session is gone
    locked            boolean NOT NULL DEFAULT false,
    paused            boolean NOT NULL DEFAULT false,
    pause_reason      text,
    report            jsonb,
    -- raised by whatever may make a dead letter deliverable, and how far that has been looked at and found to be nothing
    letters_epoch     bigint NOT NULL DEFAULT 0,
    letters_checked   bigint NOT NULL DEFAULT 0,
    -- what was settled since audit_base, to be compared with the log; what the ledger had then is compared too
    audit_base        bigint NOT NULL,
    audit_ledger      bigint[] NOT NULL DEFAULT '{}' CHECK (cardinality(audit_ledger) % 2 = 0),
    settled_events    bigint NOT NULL DEFAULT 0,
    settled_sum       numeric NOT NULL DEFAULT 0,
    late_events       bigint NOT NULL DEFAULT 0,
    late_sum          numeric NOT NULL DEFAULT 0,
    created_at        timestamptz NOT NULL DEFAULT now(),
    updated_at        timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace_id, subscriber_id, partition)
) WITH (fillfactor = 25);

-- Sequences that are proved to stay empty.
CREATE TABLE headwater.permanent_gaps (
    namespace_id   int NOT NULL,
    first_sequence bigint NOT NULL,
    last_sequence  bigint NOT NULL,
    proof          text NOT NULL CHECK (proof IN ('aborted', 'poison', 'trimmed')),
    recorded_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace_id, first_sequence, last_sequence),
    CHECK (first_sequence <= last_sequence)
);

-- Events that a subscriber gave up on, whole: they outlive the event, so no foreign key.
CREATE TABLE headwater.dead_letters (
    namespace_id    int NOT NULL,
    subscriber_id   text COLLATE "C" NOT NULL,
    global_sequence bigint NOT NULL,
    event_id        uuid NOT NULL,
    event_type      text COLLATE "C" NOT NULL,
    order_key       text COLLATE "C" NOT NULL,
    state           text COLLATE "C" NOT NULL CHECK (state IN ('dead', 'parked', 'redriving', 'redriven', 'discarded')),
    -- later events of the key wait behind it
    parks_key       boolean NOT NULL,
    -- of the last attempt
    error           text NOT NULL,
    node            text NOT NULL,
    attempts        jsonb NOT NULL,
    event           jsonb NOT NULL,
    reason          text,
    -- the term in which the subscriber's owner last wrote it
    term            bigint NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now(),
    updated_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace_id, subscriber_id, global_sequence)
);
CREATE INDEX dead_letters_open ON headwater.dead_letters (namespace_id, subscriber_id, order_key, global_sequence)
    WHERE state IN ('dead', 'parked', 'redriving');
CREATE INDEX dead_letters_parked ON headwater.dead_letters (namespace_id, subscriber_id, order_key, global_sequence)
    WHERE state = 'parked';
CREATE INDEX dead_letters_redriving ON headwater.dead_letters (namespace_id, subscriber_id, global_sequence)
    WHERE state = 'redriving';

-- States of projections and sagas; `owner` is the subscriber.
CREATE TABLE headwater.states (
    namespace_id int NOT NULL,
    owner        text COLLATE "C" NOT NULL CHECK (octet_length(owner) BETWEEN 1 AND 255),
    state_id     text COLLATE "C" NOT NULL CHECK (octet_length(state_id) BETWEEN 1 AND 512),
    state        jsonb NOT NULL,
    updated_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace_id, owner, state_id)
) WITH (fillfactor = 70);
