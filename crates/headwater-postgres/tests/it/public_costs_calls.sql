-- Calls of every function and view of the schema `headwater`: see public_costs.rs.
--   grows: which dimensions may make the calls below it touch more pages
--   before: what comes before the next call, in its transaction
--   locks: how many the next call may hold, if that is more than all others may
-- $n$ is how much a call asks for. `k` is the row of public.known.

-- grows: nothing
SELECT headwater.subscriber_status('shop', 'reader');
SELECT headwater.pass_types(1, 0, 1000000, '{A}');
SELECT headwater.read_claims('shop', 'work', ARRAY[k.claim_id]) FROM public.known k;
SELECT headwater.import_follow(1, 'import-0', 'token');
-- before: SELECT headwater.import_follow(1, 'import-0', 'token')
SELECT headwater.import_follow_advance(1, 'import-0', 'token', 0, '{1}', NULL, 1, k.first, k.first) FROM public.known k;
-- before: SELECT headwater.import_follow(1, 'import-0', 'token')
SELECT headwater.import_follow_move(1, 'import-0', 'token', '{following}', 'done');
SELECT headwater.maintain_index('shop');
-- before: SELECT headwater.alter_namespace('shop', index => 'types')
SELECT headwater.maintain_index('shop', $n$);
SELECT headwater.set_storage('shop', n.storage) FROM headwater.list_namespaces('shop') n;
SELECT headwater.ack('shop', 'work', k.claim_id) FROM public.known k;
SELECT headwater.ack('shop', 'work', c.claim_id, c.sequences) FROM (SELECT c.claim_id, array_agg(c.global_sequence) AS sequences FROM headwater.claim('shop', 'work', $n$) c GROUP BY 1) c;
SELECT headwater.ack_once('shop', 'work', k.claim_id) FROM public.known k;
SELECT headwater.add_poison_notifier('shop', 'pager');
SELECT headwater.advance(1, 'reader', k.reader_term, k.first + 5, NULL, '{}', 6, '0', 0, '0', 0, k.history) FROM public.known k;
SELECT headwater.advance_chunks(1, 'reader', k.reader_term, k.first + 5, NULL, '{}', 6, '0', 0, '0', 0, k.history, k.first - 1, 0, 0, '{}', '{}', '{}', '{}', false) FROM public.known k;
SELECT headwater.advance_in(1, 'reader', k.reader_term, k.first + 5, NULL, '{}', 6, '0', 0, '0', k.first - 1, '{}', 0, k.history) FROM public.known k;
SELECT headwater.alter_namespace('shop', metadata => '{"a": "b"}');
SELECT headwater.append('shop', 'order-1', '[{"type": "A"}, {"type": "A"}]', expected_version => 20);
SELECT headwater.append('shop', 'new', (SELECT jsonb_agg(jsonb_build_object('type', 'A')) FROM generate_series(1, $n$)), expected_version => 0);
SELECT headwater.append('shop', '[{"stream_id": "order-1", "events": [{"type": "A"}]}, {"stream_id": "cart-1", "events": [{"type": "A"}]}]');
SELECT headwater.append_batch('shop', '{1}', ARRAY[headwater.uuid_v7()], '{A}', '{1}', '{order-1}', '{1}', '{1}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{1}', '{order-1}', '{1}', NULL, true, NULL);
SELECT headwater.append_event_log('shop', 'A', '{}', 'node-0');
SELECT headwater.append_writes('shop', '[{"stream_id": "order-1", "events": [{"type": "A"}]}]');
SELECT headwater.attend_queues(1, 'node-0', '018f0000-0000-7000-8000-0000000000aa', '{work,reader}', '{1,2}', 3600000);
SELECT headwater.attend_alone('shop', '{reader-1}', '{null}', 3600000);
SELECT headwater.begin_event(1, 'reader', k.reader_term, 0, '01900000-0000-7000-8000-000000000001') FROM public.known k;
SELECT headwater.begin_history();
SELECT headwater.begin_maintenance(1, '1 minute');
SELECT headwater.begin_turn(1, 'reader', k.reader_term, 0, true) FROM public.known k;
SELECT headwater.bury(1, 'reader', k.reader_term, ARRAY(SELECT k.first + i FROM generate_series(1, $n$) i), array_fill(k.claim_id, ARRAY[$n$]), array_fill('A'::text, ARRAY[$n$]), array_fill('k'::text, ARRAY[$n$]), array_fill('dead'::text, ARRAY[$n$]), array_fill(false, ARRAY[$n$]), array_fill('no'::text, ARRAY[$n$]), array_fill('n'::text, ARRAY[$n$]), array_fill('[]'::text, ARRAY[$n$]), array_fill('{"id": "01900000-0000-7000-8000-000000000001", "event_type": "A", "schema_version": 1, "global_sequence": 1, "created_at": "2026-01-01T00:00:00Z", "recorded_at": "2026-01-01T00:00:00Z"}'::text, ARRAY[$n$]), 0) FROM public.known k;
SELECT headwater.cancel_due('shop', '01900000-0000-7000-8000-000000010000');
SELECT headwater.cdc_begin('shop', k.slot, k.slot_term, '1', 1) FROM public.known k;
SELECT headwater.cdc_caught_up('shop', k.slot_term, true) FROM public.known k;
SELECT headwater.cdc_evict('shop', k.slot, k.slot_term) FROM public.known k;
SELECT headwater.cdc_inbox_head(1, k.slot, k.instance_id) FROM public.known k;
SELECT headwater.cdc_inbox_page(1, 0, $n$);
SELECT headwater.cdc_left('shop', 'node-0');
SELECT headwater.cdc_orphans('1 hour');
SELECT headwater.cdc_own('shop', k.slot, 'node-0', k.instance_id, k.slot_term, 3600000) FROM public.known k;
SELECT headwater.cdc_receive('shop', k.slot, k.slot_term, array_fill('9/9'::pg_lsn, ARRAY[$n$]), ARRAY(SELECT i FROM generate_series(1, $n$) i), array_fill(k.first, ARRAY[$n$]), array_fill('{}'::text, ARRAY[$n$]), array_fill(NULL::text, ARRAY[$n$])) FROM public.known k;
SELECT headwater.cdc_release('shop', k.slot_term) FROM public.known k;
SELECT headwater.cdc_report('shop', 'node-0', k.instance_id, 'inbox', 'streaming', k.slot, NULL, '{}', 1, 1) FROM public.known k;
SELECT headwater.claim('shop', 'work', $n$);
SELECT headwater.claim('shop', 'work', $n$, per_claim => 2);
SELECT headwater.claim('shop', 'work', $n$, event_types => '{B}');
SELECT headwater.claim('shop', 'work', $n$, event_types => '{B*}');
SELECT headwater.claim('shop', 'work', 10, event_types => '{B}', acks => ARRAY[k.claim_id]) FROM public.known k;
SELECT headwater.create_namespace('new');
SELECT headwater.create_namespace('shop');
SELECT headwater.dead_letter_queue_name_for_namespace('shop');
SELECT headwater.discard('shop', 'why', 'work', global_sequence => k.letter) FROM public.known k;
SELECT headwater.emit('shop', 'A', key => 'k');
SELECT headwater.emit_at('shop', 'A', now() + interval '1 hour');
SELECT headwater.emit_batch('shop', ARRAY(SELECT headwater.uuid_v7() FROM generate_series(1, $n$)), array_fill('A'::text, ARRAY[$n$]), array_fill('1'::text, ARRAY[$n$]), array_fill(now(), ARRAY[$n$]), array_fill(1, ARRAY[$n$]), NULL, NULL, NULL, NULL, NULL, NULL);
SELECT headwater.emit_one('shop', headwater.uuid_v7(), 'A', '1', now(), 1, NULL, NULL, NULL, NULL, NULL, NULL);
SELECT headwater.end_maintenance(1);
SELECT headwater.end_turn(1, 'reader', k.reader_term, 0) FROM public.known k;
SELECT headwater.export_events('shop', 0, 10);
SELECT headwater.export_events('shop', k.first, $n$) FROM public.known k;
SELECT headwater.extend('shop', 'work', k.claim_id, '1 hour') FROM public.known k;
SELECT headwater.fail_events('shop', 'reader', 0, k.reader_term, ARRAY(SELECT k.first + i FROM generate_series(3, $n$) i)) FROM public.known k;
SELECT headwater.fail_events('shop', 'reader', 0, k.reader_term, ARRAY(SELECT k.first + i FROM generate_series(3, $n$) i), permanent => true) FROM public.known k;
SELECT headwater.fire_due('shop');
SELECT headwater.fire_schedules('shop');
SELECT headwater.forget_ahead(1, 'reader', 0);
SELECT headwater.forget_nodes('shop', '0', 'node-0');
SELECT headwater.gap_events(1, ARRAY[k.first + 3], ARRAY[k.first + 4], 10, NULL, NULL) FROM public.known k;
SELECT headwater.gap_events(1, ARRAY(SELECT k.first + 3 * i FROM generate_series(1, $n$) i), ARRAY(SELECT k.first + 3 * i FROM generate_series(1, $n$) i), $n$, NULL, NULL) FROM public.known k;
SELECT headwater.get_state(1, 'reader', 'state');
SELECT headwater.get_state_for_update(1, 'reader', 'state');
SELECT headwater.grant_role('shop', current_user::text, 'consumer');
SELECT headwater.group_members(1, 'group');
SELECT headwater.group_status('shop', 'group');
SELECT headwater.heartbeat('shop', 'node-0', k.incarnation) FROM public.known k;
SELECT headwater.horizon('shop');
SELECT headwater.import_advance(1, 'import-0', NULL, '{1}', 1, k.first, k.first) FROM public.known k;
SELECT headwater.import_begin(1, 'import-0', '{}');
SELECT headwater.import_namespace(k.lines[1], 'new') FROM public.known k;
-- before: SELECT headwater.import_namespace(k.lines[1], 'new') FROM public.known k
-- locks: 128
SELECT headwater.import_lines('new', k.lines[2:]) FROM public.known k;
SELECT headwater.import_range(1, 'import-0');
SELECT headwater.import_verified(1, 'import-0');
SELECT headwater.is_node(1, 'node-0', k.instance_id) FROM public.known k;
SELECT headwater.is_parked(1, 'reader', 'k', 0);
SELECT headwater.join_groups('shop', 'node-0', '018f0000-0000-7000-8000-0000000000aa', 3600000, '{group}', false, false);
SELECT headwater.keep_leases('shop', 'node-0', '018f0000-0000-7000-8000-0000000000aa', 3600000, '{reader}', '{0}', ARRAY[k.reader_term], '{NULL}', '{"{\"a\": 1}"}', '{false}', false) FROM public.known k;
SELECT headwater.lease_partitions('shop', 'group', '018f0000-0000-7000-8000-0000000000aa', lease => '1 hour');
SELECT headwater.leave_groups('shop', '018f0000-0000-7000-8000-0000000000aa', '{group}');
SELECT headwater.ledger_chunks(1, 'reader', 0);
SELECT headwater.list_namespaces('shop');
SELECT headwater.list_dead_letters(1, 'work', NULL, NULL, NULL, NULL, NULL, NULL, 1);
SELECT headwater.list_due(1, false, 1);
SELECT headwater.log_end('shop');
SELECT headwater.log_page(1, 0, NULL, 10, NULL, NULL, NULL);
SELECT headwater.log_page(1, k.first, NULL, $n$, NULL, NULL, NULL) FROM public.known k;
SELECT headwater.log_page(1, k.hole, NULL, 10, NULL, NULL, NULL) FROM public.known k;
SELECT headwater.log_page(1, k.first - 1, NULL, 10, NULL, 'order-1', NULL) FROM public.known k;
SELECT headwater.log_page_back(1, 9223372036854775807, 0, $n$, NULL, NULL, NULL);
SELECT headwater.maintain_namespace('shop');
SELECT headwater.nack('shop', 'work', k.claim_id) FROM public.known k;
SELECT headwater.nack('shop', 'work', c.claim_id, c.sequences) FROM (SELECT c.claim_id, array_agg(c.global_sequence) AS sequences FROM headwater.claim('shop', 'work', $n$) c GROUP BY 1) c;
SELECT headwater.nack('shop', 'work', k.claim_id, permanent => true) FROM public.known k;
SELECT headwater.next_events('shop', 'reader', 0, k.reader_term, $n$) FROM public.known k;
SELECT headwater.next_events('shop', 'reader', 0, k.reader_term, $n$, scope => 'event') FROM public.known k;
SELECT headwater.list_states('shop', 'reader', max_states => $n$);
SELECT headwater.list_states('shop', 'reader', only_id => 'state');
SELECT headwater.next_events('shop', 'group', 0, k.group_term, $n$) FROM public.known k;
SELECT headwater.next_events('shop', 'reader', 0, k.reader_term, 10, event_types => '{A}') FROM public.known k;
SELECT headwater.next_runs('0 2 * * *');
SELECT headwater.note_handled('shop', 'node-0', k.incarnation, '{A}') FROM public.known k;
SELECT headwater.note_poison('shop', ARRAY(SELECT k.first + 2 + i FROM generate_series(1, $n$) i), array_fill('bad'::text, ARRAY[$n$])) FROM public.known k;
SELECT headwater.partition_of('k', 16);
SELECT headwater.pause_schedule('shop', 'daily');
SELECT headwater.pause_self(1, 'reader', k.reader_term, 'why', 0) FROM public.known k;
SELECT headwater.pause_subscriber('shop', 'reader');
SELECT headwater.poison(1, false, 1);
SELECT headwater.poison_to_tell('shop', 'mail', 10);
SELECT headwater.poison_told('shop', 'mail', ARRAY[k.first + 1]) FROM public.known k;
SELECT headwater.position_at('shop', now() - interval '1 minute');
SELECT headwater.publish_namespace('shop');
SELECT headwater.purge_dropped(100);
SELECT headwater.put_state(1, 'reader', 'state', '{"b": 2}', expected => 1, partition => 0, term => k.reader_term, global_sequence => k.first + 1) FROM public.known k;
SELECT headwater.queue_name_for_namespace('shop');
SELECT headwater.read_dead_letters('shop', 'work', max_letters => 1);
SELECT headwater.read_log('shop', 0, 10);
SELECT headwater.read_log('shop', k.first, $n$) FROM public.known k;
SELECT headwater.read_log('shop', k.hole, 10) FROM public.known k;
SELECT headwater.read_stream('shop', 'order-1', max_events => 10);
SELECT headwater.read_stream('shop', 'long', max_events => $n$, backwards => true);
SELECT headwater.reap_unhandled('shop', subscriber_id => 'work', max_events => 10);
SELECT headwater.record_gaps(1, ARRAY[k.hole], ARRAY[k.hole]) FROM public.known k;
SELECT headwater.redrive('shop', 'work', global_sequence => k.letter) FROM public.known k;
SELECT headwater.redriven(1, 'reader', k.reader_term, 1, NULL, NULL, 'node-0', 0) FROM public.known k;
SELECT headwater.register_node('shop', 'another');
SELECT headwater.register_subscriber('shop', 'another');
SELECT headwater.register_subscriber('shop', 'another', 'now', mode => 'shared');
SELECT headwater.register_subscriber('shop', 'work', mode => 'shared', event_types => '{A}');
-- before: SELECT headwater.set_event_types('shop', 'work', '{B}')
SELECT headwater.register_subscriber('shop', 'work', mode => 'shared', event_types => '{A}');
SELECT headwater.register_subscriber('shop', 'reader');
SELECT headwater.release_leases('shop', '018f0000-0000-7000-8000-0000000000aa', '{reader}', '{0}', '{false}');
SELECT headwater.release_partitions('shop', 'reader', '018f0000-0000-7000-8000-0000000000aa');
SELECT headwater.require_history(k.history) FROM public.known k;
-- locks: 128
SELECT headwater.reset_subscriber('shop', 'reader', k.first) FROM public.known k;
SELECT headwater.resize_group('shop', 'group', 4);
SELECT headwater.resume_schedule('shop', 'daily');
SELECT headwater.resume_subscriber('shop', 'reader');
SELECT headwater.revoke_role('shop', current_user::text);
SELECT headwater.run_schedule_now('shop', 'daily');
SELECT headwater.run_scheduled_task(k.task_id) FROM public.known k;
SELECT headwater.schedule('shop', 'hourly', 'A', '0 * * * *');
SELECT headwater.schedule_history('shop', 'daily');
SELECT headwater.schedule_status('shop', 'daily');
SELECT headwater.set_event_types('shop', 'work', '{A}');
-- before: SELECT headwater.set_event_types('shop', 'work', '{B}')
SELECT headwater.claim('shop', 'work', $n$);
-- before: SELECT headwater.set_event_types('shop', 'work', '{B*}')
SELECT headwater.claim('shop', 'work', $n$);
SELECT headwater.settle('shop', 'reader', 0, k.reader_term, k.cursor) FROM public.known k;
SELECT headwater.settle('shop', 'reader', 0, k.reader_term, e.cursor) FROM public.known k CROSS JOIN LATERAL headwater.next_events('shop', 'reader', 0, k.reader_term, $n$) e WHERE e.cursor IS NOT NULL;
SELECT headwater.settle_ahead_in(1, 'reader', 0, k.reader_term, ARRAY[k.first + 3], k.first - 1, '{}') FROM public.known k;
SELECT headwater.stop_node('shop', 'node-0', k.incarnation) FROM public.known k;
SELECT headwater.store_due('shop', headwater.uuid_v7(), 'A', now() + interval '1 hour', '1', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, true);
SELECT headwater.stream_page(1, 'long', 1, NULL, $n$, s.first_at) FROM headwater_private.streams s WHERE s.namespace_id = 1 AND s.stream_id = 'long';
SELECT headwater.stream_page_back(1, 'order-1', NULL, 20, 10);
SELECT headwater.subscriber_position(1, 'reader', 0);
SELECT headwater.touch_node_heartbeat('node-0');
SELECT headwater.unschedule('shop', 'daily');
SELECT headwater.uuid_v7();
SELECT headwater.wake('shop');
SELECT headwater.wake_due('shop');
SELECT headwater.writers(1);

-- grows: beside
-- locks: 128
-- before: SELECT headwater.import_namespace(k.lines[1], 'new'), headwater.import_lines('new', k.lines[2:]) FROM public.known k
SELECT headwater.import_finish('new', jsonb_build_object('events', 4, 'rows', cardinality(k.lines) - 5), 4, cardinality(k.lines) - 5) FROM public.known k;
SELECT headwater.register_node('shop', 'node-0');
-- locks: 128
SELECT headwater.reset_subscriber('shop', 'work', k.first) FROM public.known k;
-- before: SELECT headwater.set_event_types('shop', 'work', '{A}')
SELECT headwater.settle_untaken('shop', 'work', 100);
SELECT headwater.rename_namespace('shop', 'store', force => true);
SELECT headwater.forget_applied(1, 'reader');
SELECT headwater.discard('shop', 'why', 'work');
SELECT headwater.redrive('shop', 'work');
SELECT headwater.redeliver_in_order('shop', ARRAY[k.first + 1]) FROM public.known k;
SELECT headwater.redeliver_poison('shop', k.first + 1) FROM public.known k;
SELECT headwater.reset_on_poison('shop', ARRAY[k.first + 1]) FROM public.known k;
SELECT headwater.remove_subscriber('shop', 'work', force => true);
SELECT headwater.count_gaps(1);
SELECT headwater.audit_gaps('shop');
SELECT headwater.audit_queues('shop');
SELECT headwater.export_rows('shop');
SELECT headwater.holders('shop');
SELECT headwater.letters_to_redrive(1, 'work', 10, 0);
SELECT headwater.list_losses('shop', NULL);
SELECT headwater.load_subscriber(1, 'reader', 0);
SELECT headwater.queue_status('shop');
SELECT headwater.queue_status('shop', 'work');
SELECT headwater.schedule_status('shop');
SELECT headwater.stale_nodes(1);
SELECT headwater.subscriber_status('shop');

-- grows: months
SELECT headwater.set_storage('shop', CASE n.storage WHEN 'own' THEN 'shared' ELSE 'own' END) FROM headwater.list_namespaces('shop') n;
SELECT headwater.import_letters(1, '{reader}', '{01900000-0000-7000-8000-000000000001}', '{no}', '{[]}', ARRAY[now()], ARRAY[now()]);
SELECT headwater.causation_chain(1, '01900000-0000-7000-8000-000000000002', 10);
SELECT headwater.correlation_page(1, '01900000-0000-7000-8000-0000000000cc', 0, 10);
SELECT headwater.find_events(1, '{01900000-0000-7000-8000-000000000001}');
SELECT headwater.find_events(1, ARRAY(SELECT gen_random_uuid() FROM generate_series(1, $n$)));
SELECT headwater.count_month('shop', now() - interval '32 days');
SELECT headwater.drop_steps('shop');
SELECT headwater.maintain('shop');
SELECT headwater.month_bounds(1);
SELECT headwater.note_dropped('shop');
SELECT headwater.months('shop');
SELECT headwater.seal_months('shop');

-- grows: namespaces
SELECT headwater.fire_all_schedules();
SELECT headwater.fire_all_due();
SELECT headwater.list_namespaces();
SELECT headwater.maintain_shared();
SELECT headwater.apply_grants();

-- grows: namespaces, beside
SELECT headwater.all_dead_letters(max_letters => 10);
SELECT headwater.all_groups();
SELECT headwater.all_schedules();
SELECT headwater.readable_namespaces();
SELECT * FROM headwater.projection_states;
SELECT headwater.namespace_status();
SELECT headwater.cdc_status();
SELECT headwater.count_dead_letters();
SELECT headwater.holders();
SELECT headwater.node_statuses();
SELECT headwater.partition_lags();
SELECT headwater.queue_lags();
SELECT headwater.role_grants();
SELECT headwater.subscriber_lags();
SELECT * FROM headwater.dead_letter_counts;
SELECT * FROM headwater.node_status;
SELECT * FROM headwater.partition_lag;
SELECT * FROM headwater.queue_metrics;
SELECT * FROM headwater.subscriber_lag;

-- grows: months, beside
-- locks: 128
SELECT headwater.faults('shop');
-- before: UPDATE headwater_private.namespaces SET retention = '28 days' WHERE namespace = 'shop'
SELECT headwater.trim_month('shop', m.starts_at, allow_loss => true) FROM (SELECT m.starts_at FROM headwater_private.months m WHERE m.namespace_id = 1 ORDER BY 1 LIMIT 1) m;

-- grows: namespaces, months, beside
SELECT headwater.doctor_namespaces(7);

-- grows: log
SELECT headwater.cdc_tidy('shop', k.slot_term, 0, 1, '1 hour') FROM public.known k;
SELECT headwater.log_page(1, k.first - 1, NULL, 10, '{A}', NULL, NULL) FROM public.known k;

-- grows: log, months, beside
SELECT headwater.import_subscribers(1, 'import-0', '{another}', '{0}');
SELECT headwater.audit_subscribers('shop');
-- locks: 144
SELECT headwater.drop_namespace('shop', 'shop', true);
SELECT headwater.import_checksum(1, 'import-0', 1, 10);
SELECT headwater.long_transactions(1, k.first, k.first + 20, 0, 10, 10, NULL, NULL) FROM public.known k;
