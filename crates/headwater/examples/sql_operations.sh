#!/usr/bin/env bash
# What operators do, in SQL alone: nodes, schedules, dead letters, metrics, roles. The database must be migrated (`headwater migrate`, or a Rust program's migrate()), and the
# role that is connected must own its schema.
#
#   DATABASE_URL=postgres://… crates/headwater/examples/sql_operations.sh

set -euo pipefail
: "${DATABASE_URL:?DATABASE_URL is not set}"
command -v psql >/dev/null || { echo "error: psql was not found: apt-get install postgresql-client" >&2; exit 1; }

psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --set role="example_monitor_$$_$RANDOM" "$DATABASE_URL" <<'SQL'
\pset footer off
SET client_min_messages = warning;
SELECT namespace FROM headwater.create_namespace('example-operations') \g /dev/null
SELECT headwater.register_subscriber('example-operations', 'mailer', mode => 'shared') \g /dev/null
SELECT headwater.append_event_log('example-operations', 'user.created', jsonb_build_object('user', n), 'api-server-1')
  FROM generate_series(1, 3) n \g /dev/null

\echo 'A worker takes three events, and gives one of them up: it becomes a dead letter.'
SELECT claim_id, max(global_sequence) AS third, array_agg(global_sequence) AS all FROM headwater.claim('example-operations', 'mailer', 3) GROUP BY claim_id \gset
SELECT headwater.nack('example-operations', 'mailer', :'claim_id', ARRAY[:third], error => 'no such address', permanent => true) \g /dev/null
SELECT headwater.ack('example-operations', 'mailer', :'claim_id') \g /dev/null

\echo 'What a monitor sees.'
SELECT subscriber_id, lag_events, dead_letters FROM headwater.subscriber_lag WHERE namespace = 'example-operations';
SELECT waiting, in_flight, retries FROM headwater.queue_metrics WHERE namespace = 'example-operations';
SELECT state, letters FROM headwater.dead_letter_counts WHERE namespace = 'example-operations';

\echo 'The letter has the event and its error. It is delivered again when it is asked for.'
SELECT error, event -> 'data' AS data FROM headwater.read_dead_letters('example-operations', 'mailer');
SELECT headwater.redrive('example-operations', 'mailer') AS redriven;
SELECT headwater.ack('example-operations', 'mailer', claim_id) FROM headwater.claim('example-operations', 'mailer') \g /dev/null
SELECT count(*) AS open_letters FROM headwater.read_dead_letters('example-operations', 'mailer') \gset
\echo 'open letters:' :open_letters

\echo 'A process says that it lives. Its incarnation tells it from one that takes its id later.'
SELECT node_id, incarnation FROM headwater.register_node('example-operations', 'worker-1', event_types => ARRAY['maintenance.*']) \gset
SELECT headwater.heartbeat('example-operations', :'node_id', :incarnation) \g /dev/null
SELECT node_id, alive, event_types FROM headwater.node_status WHERE namespace = 'example-operations';

\echo 'A task that is due every night, and now because somebody asks for it.'
SELECT local_time FROM headwater.next_runs('0 2 * * *', 'Europe/Copenhagen', after => '2026-03-28 12:00+00', count => 2);
SELECT headwater.schedule('example-operations', 'nightly', 'maintenance.cleanup', '0 2 * * *', timezone => 'Europe/Copenhagen') AS task_id \gset
SELECT headwater.run_schedule_now('example-operations', 'nightly') AS cleanup \gset
SELECT headwater.run_scheduled_task(:'task_id') AS of_itself;
SELECT outcome, global_sequence = :cleanup AS is_in_the_log FROM headwater.schedule_history('example-operations', 'nightly', count => 1);
SELECT name, state, next_due_at > now() AS due_later FROM headwater.schedule_status('example-operations');

\echo 'The node takes what it handles, by pattern; what a monitor sees before and after.'
SELECT waiting, in_flight FROM headwater.queue_metrics WHERE namespace = 'example-operations';
SELECT count(*) AS cleanups, min(event_type) AS type, (array_agg(claim_id))[1] AS claim_id
  FROM headwater.claim('example-operations', 'mailer', max_events => 1, visibility => '30 s', event_types => ARRAY['maintenance.*'], worker => :'node_id') \gset
\echo 'claimed:' :cleanups :type
SELECT headwater.ack('example-operations', 'mailer', :'claim_id') \g /dev/null
SELECT waiting, in_flight FROM headwater.queue_metrics WHERE namespace = 'example-operations';
SELECT headwater.unschedule('example-operations', 'nightly') \g /dev/null
SELECT headwater.stop_node('example-operations', :'node_id', :incarnation) AS stopped \gset
SELECT count(*) AS alive FROM headwater.node_status WHERE namespace = 'example-operations' AND alive \gset
\echo 'alive:' :alive

\echo 'The months of the log, and who holds those that are due to go.'
SELECT count(*) AS months, count(*) FILTER (WHERE held_by <> '{}') AS held FROM headwater.months('example-operations');

\echo 'A role that may read this namespace, and see nothing of any other.'
CREATE ROLE :role;
SELECT headwater.grant_role('example-operations', :'role', 'consumer') \g /dev/null
SET ROLE :role;
SELECT namespace FROM headwater.list_namespaces();
SELECT count(*) AS events FROM headwater.read_log('example-operations');
RESET ROLE;
SELECT headwater.revoke_role('example-operations', :'role') AS revoked;
DROP ROLE :role;

-- What was claimed, checked.
SELECT set_config('example.open_letters', :'open_letters', false), set_config('example.cleanups', :'cleanups' || ' ' || :'type', false),
       set_config('example.stopped', :'stopped' || :'alive', false) \g /dev/null
DO $$
BEGIN
    ASSERT current_setting('example.open_letters') = '0';
    ASSERT current_setting('example.cleanups') = '1 maintenance.cleanup', current_setting('example.cleanups');
    ASSERT current_setting('example.stopped') = 't0', current_setting('example.stopped');
END
$$;
SQL
echo "done"
