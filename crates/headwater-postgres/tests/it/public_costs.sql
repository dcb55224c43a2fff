-- Fills the database that public_costs.rs measures: the namespace `shop`, whose past months exist
-- already, and others beside it. Each step is its own transaction.
--   $namespaces$  how many namespaces there are
--   $events$      events of this month in `shop`
--   $beside$      how many of everything stand beside what a call asks for
--   $role$        a role that gets an admin's grant in each namespace

-- step: a role that may do all that a role can be granted
GRANT SELECT ON ALL TABLES IN SCHEMA public TO $role$;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO $role$;
SELECT headwater.grant_role('shop', '$role$', 'admin');
-- step: ids of past events are in the order of time, as new ones are
DO $$
DECLARE
    ns headwater_private.namespaces := headwater_private.namespace_row('shop');
BEGIN
    EXECUTE format('UPDATE headwater_private.%I SET event_id = (''01800000-0000-7000-8000-'' || lpad(to_hex(global_sequence), 12, ''0''))::uuid
                     WHERE namespace_id = 1', headwater_private.log_table(ns));
    UPDATE headwater_private.namespaces SET sealed_max_id = '01800000-0000-7000-8000-ffffffffffff' WHERE namespace_id = 1;
END
$$;
-- step: other namespaces, each with a bit of everything
SELECT headwater.create_namespace('tenant-' || i) FROM generate_series(2, $namespaces$) i;
-- step
SELECT headwater.emit(n.namespace, 'A', key => 'k') FROM headwater_private.namespaces n, generate_series(1, 3) WHERE n.namespace <> 'shop';
SELECT headwater.append(n.namespace, 'order-1', '[{"type": "A"}]') FROM headwater_private.namespaces n WHERE n.namespace <> 'shop';
SELECT headwater.emit_at(n.namespace, 'A', now() + interval '1 day'),
       headwater.register_subscriber(n.namespace, 'reader'), headwater.register_subscriber(n.namespace, 'work', mode => 'shared'),
       headwater.register_subscriber(n.namespace, 'group', mode => 'partitioned', partitions => 2),
       headwater.schedule(n.namespace, 'daily', 'A', '0 2 29 2 *'), headwater.register_node(n.namespace, 'node-' || n.namespace_id, event_types => '{A}'),
       headwater.grant_role(n.namespace, '$role$', 'admin')
  FROM headwater_private.namespaces n WHERE n.namespace <> 'shop';
-- step
SELECT headwater.nack(n.namespace, 'work', c.claim_id, permanent => true)
  FROM headwater_private.namespaces n CROSS JOIN LATERAL headwater.claim(n.namespace, 'work', 1) c WHERE n.namespace <> 'shop';
SELECT headwater.claim(n.namespace, 'work', 1, '1 hour') FROM headwater_private.namespaces n WHERE n.namespace <> 'shop';
SELECT headwater.lease_partitions(n.namespace, 'reader', gen_random_uuid(), lease => '1 day') FROM headwater_private.namespaces n WHERE n.namespace <> 'shop';

-- step: the log. `order-1`, a correlation and a chain of causes are the same at every size.
CREATE TABLE public.known (
    first bigint, history uuid, reader_term bigint, group_term bigint, cursor text, claim_id uuid, task_id uuid, incarnation bigint, instance_id uuid,
    slot text, slot_term bigint, letter bigint, hole bigint, lines text[]
);
INSERT INTO public.known (first, history) SELECT headwater.emit('shop', 'A', key => 'k'), headwater.begin_history();
SELECT headwater.append('shop', 'order-1', (SELECT jsonb_agg(jsonb_build_object('type', 'A', 'key', 'k')) FROM generate_series(1, 20)));
SELECT headwater.emit('shop', 'A', event_id => '01900000-0000-7000-8000-000000000001', correlation_id => '01900000-0000-7000-8000-0000000000cc'),
       headwater.emit('shop', 'A', event_id => '01900000-0000-7000-8000-000000000002', correlation_id => '01900000-0000-7000-8000-0000000000cc',
                      causation_id => '01900000-0000-7000-8000-000000000001');
-- step: more of the log: each event has a stream, a key and a transaction of many
SELECT count(*) FROM headwater.append('shop', (SELECT jsonb_agg(jsonb_build_object('stream_id', 'cart-' || i, 'events',
           jsonb_build_array(jsonb_build_object('type', 'B', 'key', 'k' || i % 7, 'data', repeat('x', 200))))) FROM generate_series(1, $events$) i));
SELECT count(*) FROM headwater.append('shop', 'long', (SELECT jsonb_agg(jsonb_build_object('type', 'C')) FROM generate_series(1, 320)));
-- step: holes, of which one is not recorded
UPDATE public.known SET hole = s.hole
  FROM (SELECT min(s.hole) AS hole FROM (SELECT nextval(n.sequence) AS hole FROM headwater_private.namespaces n, generate_series(0, $beside$ * 2 + 2) i WHERE n.namespace = 'shop') s) s;
SELECT headwater.emit('shop', 'A');
-- step
SELECT headwater.record_gaps(1, array_agg(k.hole + 2 * i), array_agg(k.hole + 2 * i)) FROM public.known k, generate_series(1, $beside$) i;

-- step: subscribers, and those beside them
SELECT headwater.register_subscriber('shop', 'reader' || n), headwater.register_subscriber('shop', 'work' || n, mode => 'shared'),
       headwater.register_subscriber('shop', 'group' || n, mode => 'partitioned', partitions => 2)
  FROM (SELECT '' UNION ALL SELECT '-' || i FROM generate_series(1, $beside$) i) AS s(n);
-- step: at the first event of this month, whatever lies before it
SELECT headwater.reset_subscriber('shop', s.subscriber_id, k.first - 1) FROM public.known k, headwater_private.subscribers s WHERE s.namespace_id = 1 AND s.partition = 0;
-- step
SELECT headwater.lease_partitions('shop', 'reader' || n, gen_random_uuid(), lease => '1 day'), headwater.lease_partitions('shop', 'group' || n, gen_random_uuid(), lease => '1 day')
  FROM (SELECT '-' || i FROM generate_series(1, $beside$) i) AS s(n);
UPDATE public.known SET reader_term = r.term, group_term = g.term
  FROM headwater.lease_partitions('shop', 'reader', '018f0000-0000-7000-8000-0000000000aa', lease => '1 day') r,
       headwater.lease_partitions('shop', 'group', '018f0000-0000-7000-8000-0000000000aa', lease => '1 day') g WHERE g.partition = 0;
UPDATE public.known SET cursor = (SELECT e.cursor FROM headwater.next_events('shop', 'reader', 0, known.reader_term, 10) e WHERE e.cursor IS NOT NULL);
-- step: what becomes of claims: letters, retries, and claims that are open
SELECT headwater.nack('shop', 'work', c.claim_id, permanent => true) FROM generate_series(0, $beside$) i CROSS JOIN LATERAL headwater.claim('shop', 'work', 1 + 0 * i, '1 hour') c;
-- step
SELECT headwater.nack('shop', 'work', c.claim_id, delay => '1 day') FROM generate_series(1, $beside$) i CROSS JOIN LATERAL headwater.claim('shop', 'work', 1 + 0 * i, '1 hour') c;
SELECT headwater.claim('shop', 'work-' || i, 1, '1 hour') FROM generate_series(1, $beside$) i;
-- step
SELECT headwater.claim('shop', 'work', 1, '1 hour') FROM generate_series(1, $beside$);
UPDATE public.known SET claim_id = (SELECT c.claim_id FROM headwater.claim('shop', 'work', 10, '1 hour') c LIMIT 1);
-- step
INSERT INTO headwater_private.dead_letters (namespace_id, subscriber_id, global_sequence, event_id, event_type, order_key, state, parks_key, error, node, attempts, event, term)
SELECT d.namespace_id, s.subscriber_id, CASE WHEN s.subscriber_id = 'reader' THEN 1 ELSE d.global_sequence END, d.event_id, d.event_type, d.order_key, d.state, false, d.error, d.node,
       d.attempts, d.event, k.reader_term
  FROM headwater_private.dead_letters d, public.known k, (VALUES ('reader'), ('reader-1')) AS s(subscriber_id)
 WHERE d.namespace_id = 1 AND d.subscriber_id = 'work' AND (d.global_sequence = k.first OR s.subscriber_id <> 'reader');
UPDATE public.known SET letter = (SELECT max(d.global_sequence) FROM headwater_private.dead_letters d WHERE d.namespace_id = 1);
-- step: states, nodes, schedules, what is due, imports, poison, the inbox
SELECT headwater.put_state(1, 'reader' || n, 'state', '{"a": 1}', global_sequence => k.first) FROM public.known k, (SELECT '' UNION ALL SELECT '-' || i FROM generate_series(1, $beside$) i) AS s(n);
SELECT headwater.put_state(1, 'reader-1', 'state-' || i, '{"a": 1}', global_sequence => k.first) FROM public.known k, generate_series(1, $beside$) i;
SELECT headwater.register_node('shop', 'node-' || i, event_types => '{A}') FROM generate_series(1, $beside$) i;
UPDATE public.known SET incarnation = n.incarnation, instance_id = n.instance_id FROM headwater.register_node('shop', 'node-0', event_types => '{A}') n;
SELECT headwater.schedule('shop', 'leap-' || i, 'A', '0 2 29 2 *') FROM generate_series(1, $beside$) i;
UPDATE public.known SET task_id = headwater.schedule('shop', 'daily', 'A', '0 2 * * *');
UPDATE headwater_private.schedules SET next_due_at = now(), fire_at = now() WHERE namespace_id = 1 AND name = 'daily';
SELECT headwater.emit_at('shop', 'A', now() + interval '1 day', event_id => ('01900000-0000-7000-8000-00000001' || to_char(i, 'FM0000'))::uuid)
  FROM generate_series(0, $beside$ + 1) i;
UPDATE headwater_private.due_events SET due_at = now(), fire_at = now() WHERE event_id = '01900000-0000-7000-8000-000000010001';
SELECT headwater.import_begin(1, 'import-' || i, '{}') FROM generate_series(0, $beside$) i;
SELECT headwater.add_poison_notifier('shop', 'mail');
SELECT headwater.note_poison('shop', ARRAY[k.first + 1, k.first + 2], '{bad, bad}') FROM public.known k;
INSERT INTO headwater_private.losses (namespace_id, subscriber_id, partition, first_sequence, last_sequence, events)
SELECT 1, 'reader' || CASE WHEN i = 0 THEN '' ELSE '-' || i END, 0, 1, 2, 2 FROM generate_series(0, $beside$) i;
UPDATE public.known SET slot = 'headwater_n1_d' || d.oid FROM pg_database d WHERE d.datname = current_database();
UPDATE public.known SET slot_term = o.term
  FROM (SELECT o.* FROM public.known k, headwater.cdc_own('shop', k.slot, 'node-0', k.instance_id, NULL, 3600000) o) o;
INSERT INTO headwater_private.cdc_inbox (global_sequence, commit_lsn, namespace_id, nth, slot, status, event)
SELECT k.first, '0/100'::pg_lsn + i, 1, 0, k.slot, 'RECEIVED', '{}' FROM public.known k, generate_series(1, $events$) i;
UPDATE public.known SET lines = ARRAY(SELECT r FROM headwater.export_rows('tenant-2') r UNION ALL SELECT e.line FROM headwater.export_events('tenant-2', 0, 10) e);
