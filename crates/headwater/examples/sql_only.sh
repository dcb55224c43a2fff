#!/usr/bin/env bash
# SQL alone: what any language with a PostgreSQL driver can do. Append, emit and read are functions, and join the
# transaction that calls them. The database must be migrated (`headwater migrate`, or a Rust program's migrate()).
#
#   DATABASE_URL=postgres://… crates/headwater/examples/sql_only.sh

set -euo pipefail
: "${DATABASE_URL:?DATABASE_URL is not set}"
command -v psql >/dev/null || { echo "error: psql was not found: apt-get install postgresql-client" >&2; exit 1; }

psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --set order="order-$$-$RANDOM$RANDOM" "$DATABASE_URL" <<'SQL'
\pset footer off
SET client_min_messages = warning;

\echo 'A namespace: made once, found again ever after.'
SELECT namespace, ordering FROM headwater.create_namespace('example-sql');

\echo 'A table of the application, and an event about it: one transaction.'
CREATE TABLE IF NOT EXISTS example_orders (id text PRIMARY KEY, total int NOT NULL);
BEGIN;
INSERT INTO example_orders VALUES (:'order', 120);
SELECT * FROM headwater.append('example-sql', :'order',
    '[{"type": "OrderPlaced", "data": {"total": 120}}, {"type": "OrderPaid", "data": {"by": "card"}}]',
    expected_version => 0);
COMMIT;

\echo 'An event without a stream.'
SELECT headwater.emit('example-sql', 'DayEnded', jsonb_build_object('orders', 1)) AS global_sequence \gset
\echo :global_sequence

\echo 'An event for later. When it is due, whoever fires appends it: a node, headwater up, or a job that calls this. Or it is taken back.'
SELECT headwater.emit_at('example-sql', 'PaymentOverdue', now() + interval '3 days', jsonb_build_object('order', :'order')) AS reminder \gset
SELECT fired, next_due_in > interval '1 day' AS next_in_days FROM headwater.fire_due('example-sql');
SELECT headwater.cancel_due('example-sql', :'reminder') AS cancelled;

\echo 'A rollback takes the row and the event back.'
BEGIN;
UPDATE example_orders SET total = 0 WHERE id = :'order';
SELECT stream_version FROM headwater.append('example-sql', :'order', '{"type": "OrderCancelled"}', expected_version => 2);
ROLLBACK;
SELECT total FROM example_orders WHERE id = :'order';

\echo 'The stream.'
SELECT stream_version, event_type, data FROM headwater.read_stream('example-sql', :'order');

\echo 'The log, up to its horizon: read on from the last global_sequence, and nothing is missed.'
SELECT global_sequence, stream_id, stream_version, event_type
  FROM headwater.read_log('example-sql', after_sequence => :global_sequence - 3, max_events => 10);

\echo 'A conflict has the SQLSTATE WH007, and says in its DETAIL what the version is.'
-- psql's variables do not reach into a DO block; a setting does.
SELECT set_config('example.stream', :'order', false) \g /dev/null
DO $$
DECLARE
    state  text;
    detail jsonb;
BEGIN
    PERFORM headwater.append('example-sql', current_setting('example.stream'), '{"type": "OrderPlaced"}', expected_version => 0);
    RAISE EXCEPTION 'a conflict was expected';
EXCEPTION WHEN SQLSTATE 'WH007' THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, detail = PG_EXCEPTION_DETAIL;
    ASSERT detail ->> 'actual' = '2', detail;
    RAISE WARNING '% %', state, detail;
END
$$;

\echo 'What was claimed, checked.'
DO $$
DECLARE
    types text[];
BEGIN
    SELECT array_agg(event_type ORDER BY stream_version) INTO types
      FROM headwater.read_stream('example-sql', current_setting('example.stream'));
    ASSERT types = '{OrderPlaced,OrderPaid}', types;
    ASSERT (SELECT total FROM example_orders WHERE id = current_setting('example.stream')) = 120;
END
$$;
SQL
echo "done"
