-- Calls public functions with one extreme value at a time, beside valid arguments. Notes each call
-- that returns neither a result that every driver can read nor one of Headwater's errors. Each call
-- is undone. `called` has the functions to call.
CREATE TEMP TABLE called (name text);
CREATE TEMP TABLE good (function text, argument text, value text);
INSERT INTO good VALUES
    (NULL, 'namespace', $v$'shop'$v$), (NULL, 'p_namespace', $v$'shop'$v$), (NULL, 'event_type', $v$'A'$v$), (NULL, 'p_event_type', $v$'A'$v$),
    (NULL, 'p_payload', $v$'{}'$v$), (NULL, 'p_producer_node_id', $v$'n'$v$), (NULL, 'stream_id', $v$'order-1'$v$),
    (NULL, 'events', $v$'[{"type": "A"}]'$v$), (NULL, 'writes', $v$'[{"stream_id": "order-9", "events": [{"type": "A"}]}]'$v$),
    (NULL, 'due_at', $v$now() + interval '1 day'$v$), (NULL, 'event_id', 'gen_random_uuid()'), (NULL, 'subscriber_id', $v$'reader'$v$),
    (NULL, 'partitions', '4'), (NULL, 'at', 'now()'), (NULL, 'to_position', '0'), (NULL, 'max_events', '10'), (NULL, 'visibility', $v$'30 s'$v$),
    (NULL, 'name', $v$'daily'$v$), (NULL, 'expression', $v$'0 2 * * *'$v$), (NULL, 'task_id', 'gen_random_uuid()'),
    (NULL, 'node_id', $v$'node-1'$v$), (NULL, 'incarnation', '1'), (NULL, 'month', 'now()'), (NULL, 'role', 'current_user::text'),
    (NULL, 'kind', $v$'consumer'$v$), (NULL, 'key', $v$'k'$v$), (NULL, 'claim_id', $v$(SELECT c.claim_id FROM pg_temp.taken c)$v$),
    (NULL, 'sequences', NULL), (NULL, 'global_sequence', '1'), (NULL, 'reason', $v$'why'$v$),
    (NULL, 'projection', $v$'reader'$v$), ('set_event_types', 'subscriber_id', $v$'work'$v$), ('set_event_types', 'event_types', $v$'{A}'$v$),
    ('claim', 'subscriber_id', $v$'work'$v$), ('read_claims', 'subscriber_id', $v$'work'$v$),
    (NULL, 'claim_ids', 'ARRAY(SELECT c.claim_id FROM pg_temp.taken c)'), ('extend', 'subscriber_id', $v$'work'$v$),
    ('ack', 'subscriber_id', $v$'work'$v$), ('nack', 'subscriber_id', $v$'work'$v$), ('resize_group', 'subscriber_id', $v$'group'$v$),
    ('schedule', 'cron_expression', $v$'0 2 * * *'$v$), ('schedule', 'due_at', NULL), ('create_namespace', 'namespace', $v$'other'$v$),
    -- One that nobody needs, so that the others keep theirs.
    ('rename_namespace', 'namespace', $v$'other'$v$), ('rename_namespace', 'new_name', $v$'another'$v$), ('drop_namespace', 'confirm', $v$'another'$v$),
    ('create_namespace', 'partitions', $v$'built-in'$v$), ('set_storage', 'storage', $v$'own'$v$), ('register_subscriber', 'partitions', NULL),
    (NULL, 'worker', $v$'018f0000-0000-7000-8000-0000000000aa'$v$), (NULL, 'partition', '0'), (NULL, 'term', '(SELECT l.term FROM pg_temp.leased l)'),
    (NULL, 'cursor', '(SELECT l.cursor FROM pg_temp.leased l)'), ('fail_events', 'sequences', $v$'{1}'$v$);
CREATE TEMP TABLE extreme (type regtype, value text);
INSERT INTO extreme
SELECT 'text'::regtype, v FROM unnest(ARRAY['NULL', $v$''$v$, $v$repeat('x', 100000)$v$, $v$E'\x01'$v$, $v$'💥'$v$, $v$'it''s "%" $1 \ *'$v$,
    $v$'beginning'$v$, $v$'after'$v$, $v$'time'$v$, $v$'gapless'$v$, $v$'-1'$v$]) v
UNION ALL SELECT 'bigint', v FROM unnest(ARRAY['NULL', '-1', '0', '1', '9223372036854775807', '-9223372036854775808']) v
UNION ALL SELECT 'int', v FROM unnest(ARRAY['NULL', '-1', '0', '1', '2147483647', '-2147483648']) v
UNION ALL SELECT 'timestamptz', v FROM unnest(ARRAY['NULL', $v$'infinity'$v$, $v$'-infinity'$v$, $v$'4713-01-01 BC'$v$, $v$'294276-12-31'$v$, $v$'0001-01-01 UTC'$v$,
    $v$'9999-12-31 23:59 UTC'$v$]) v
UNION ALL SELECT 'interval', v FROM unnest(ARRAY['NULL', $v$'0'$v$, $v$'-1 s'$v$, $v$'1 us'$v$, $v$'178000000 years'$v$, $v$'-178000000 years'$v$,
    $v$'5800000 years -2087999990 days'$v$, $v$'106000000 days -2543999760 hours'$v$]) v
UNION ALL SELECT 'boolean', v FROM unnest(ARRAY['NULL', 'true', 'false']) v
UNION ALL SELECT 'uuid', v FROM unnest(ARRAY['NULL', $v$'00000000-0000-0000-0000-000000000000'$v$, $v$'ffffffff-ffff-ffff-ffff-ffffffffffff'$v$]) v
UNION ALL SELECT 'jsonb', v FROM unnest(ARRAY['NULL', $v$'null'$v$, $v$'[]'$v$, $v$'{}'$v$, $v$'1e1000'$v$, $v$'"NaN"'$v$, $v$'[null]'$v$, $v$'{"a": null}'$v$,
    $v$'[{"type": "A", "created_at": "infinity"}]'$v$, $v$'[{"type": "A", "created_at": "10000-01-01"}]'$v$, $v$'[{"type": "A", "created_at": "2026-02-30T00:00:00Z"}]'$v$,
    $v$'[{"type": "A", "created_at": 5}]'$v$, $v$'[{"type": "A", "id": "x"}]'$v$, $v$'[{"type": "A", "schema_version": "x"}]'$v$,
    $v$'[{"type": "A", "schema_version": 1.5}]'$v$, $v$'[{"type": "A", "schema_version": 99999999999999999999}]'$v$, $v$'[{"type": "A", "headers": [1]}]'$v$,
    $v$'[{"events": [{"type": "A", "created_at": "infinity"}]}]'$v$, $v$'[{"events": [{"type": "A", "causation_id": {}}]}]'$v$,
    $v$'[{"stream_id": "s", "expected_version": 99999999999999999999, "events": [{"type": "A"}]}]'$v$,
    $v$'[{"stream_id": "s", "expected_version": 999999999999999999, "events": [{"type": "A"}]}]'$v$,
    $v$'[{"stream_id": "", "events": [{"type": "A"}]}]'$v$, $v$'[{"stream_id": null, "events": {"type": "A"}}]'$v$, $v$'{"a": "b"}'$v$, $v$'{"a": 1}'$v$]) v
UNION ALL SELECT 'text[]', v FROM unnest(ARRAY['NULL', $v$'{}'$v$, $v$'{NULL}'$v$, $v$'{""}'$v$, $v$'{*}'$v$, $v$'{{a},{b}}'$v$, $v$'[5:5]={A}'$v$, $v$array_fill('A'::text, ARRAY[20000])$v$,
    $v$ARRAY[repeat('x', 100000)]$v$, $v$ARRAY['a*b%c_d\', '💥*']$v$]) v
UNION ALL SELECT 'bigint[]', v FROM unnest(ARRAY['NULL', $v$'{}'$v$, $v$'{NULL}'$v$, $v$'{-1}'$v$, $v$'{0}'$v$, $v$'{{1},{2}}'$v$, $v$'{9223372036854775807}'$v$,
    $v$'{-9223372036854775808}'$v$, $v$array_fill(1::bigint, ARRAY[20000])$v$]) v
UNION ALL SELECT 'int[]', v FROM unnest(ARRAY['NULL', $v$'{}'$v$, $v$'{NULL}'$v$, $v$'{-1}'$v$, $v$'{0}'$v$, $v$'{{0},{0}}'$v$, $v$'{2147483647}'$v$,
    $v$'{-2147483648}'$v$, $v$'[5:5]={0}'$v$, $v$array_fill(0, ARRAY[20000])$v$]) v
UNION ALL SELECT 'uuid[]', v FROM unnest(ARRAY['NULL', $v$'{}'$v$, $v$'{NULL}'$v$, $v$ARRAY[gen_random_uuid()]$v$]) v;
CREATE TEMP TABLE wrong (call text, answer text);
CREATE TEMP TABLE leased AS
SELECT p.term, e.cursor FROM headwater.lease_partitions('shop', 'reader', '018f0000-0000-7000-8000-0000000000aa', lease => '1 hour') p,
       headwater.next_events('shop', 'reader', 0, p.term) e WHERE e.cursor IS NOT NULL;
CREATE TEMP TABLE taken (claim_id uuid);
INSERT INTO taken SELECT claim_id FROM headwater.claim('shop', 'work', 3) LIMIT 1;

CREATE FUNCTION pg_temp.try(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer text;
BEGIN
    BEGIN
        EXECUTE format('SELECT coalesce(string_agg(r::text, %L), %L) FROM %s r', ' ', '', call) INTO answer;
        RAISE EXCEPTION USING ERRCODE = 'ZZ001';
    EXCEPTION
        WHEN SQLSTATE 'ZZ001' THEN
            RETURN CASE WHEN answer ~ 'infinity|\yBC\y|[0-9]{5,}-[0-9][0-9]-[0-9][0-9] ' THEN 'answers ' || left(answer, 200) END;
        WHEN OTHERS THEN
            RETURN CASE WHEN SQLSTATE !~ '^WH' THEN SQLSTATE || ': ' || SQLERRM END;
    END;
END
$$;

CREATE FUNCTION pg_temp.try_all() RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    f       record;
    given   text[];
    call    text;
    answer  text;
    calls   int := 0;
BEGIN
    FOR f IN SELECT p.oid, p.proname, p.oid::regprocedure::text AS signature, a.name, a.type, a.ord, p.pronargs - p.pronargdefaults AS needed,
                    p.proargnames[1:p.pronargs] AS names
               FROM pg_proc p
              CROSS JOIN LATERAL (SELECT t.name, t.type, t.ord FROM unnest(
                       ARRAY(SELECT n FROM unnest(p.proargnames, coalesce(p.proargmodes, array_fill('i'::"char", ARRAY[p.pronargs]))) AS m(n, mode) WHERE mode IN ('i', 'b')),
                       string_to_array(p.proargtypes::text, ' ')::oid[]) WITH ORDINALITY AS t(name, type, ord)) a
              WHERE p.pronamespace = 'headwater'::regnamespace AND p.proname IN (SELECT c.name FROM pg_temp.called c) AND a.name <> 'caller'
              ORDER BY p.proname, p.oid, a.ord
    LOOP
        given := ARRAY(
            SELECT format('%I => %s', n.name, g.value)
              FROM unnest(f.names) WITH ORDINALITY AS n(name, ord)
             CROSS JOIN LATERAL (SELECT g.value FROM pg_temp.good g
                                  WHERE g.argument = n.name AND coalesce(g.function, f.proname) = f.proname ORDER BY g.function NULLS LAST LIMIT 1) g
             WHERE g.value IS NOT NULL AND n.name <> f.name
               AND (n.ord <= f.needed OR EXISTS (SELECT FROM pg_temp.good x WHERE x.function = f.proname AND x.argument = n.name)));
        FOR call IN SELECT format('%I.%I(%s)', 'headwater', f.proname, array_to_string(given || format('%I => %s', f.name,
                               CASE WHEN e.value = 'NULL' THEN format('NULL::%s', f.type::regtype) ELSE e.value END), ', '))
                      FROM pg_temp.extreme e WHERE e.type = f.type
        LOOP
            answer := pg_temp.try(call);
            calls := calls + 1;
            IF answer IS NOT NULL THEN
                INSERT INTO pg_temp.wrong VALUES (left(call, 300), left(answer, 300));
            END IF;
        END LOOP;
    END LOOP;
    RETURN calls;
END
$$;
