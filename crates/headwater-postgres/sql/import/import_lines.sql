-- headwater.import_lines(namespace, lines, first_line)
-- Imports lines of an export, in the transaction that began with headwater.import_namespace.
-- `first_line` is the number of the first of them in the file, for errors. Returns how many events
-- and other rows it stored, and the last line of the export, if it was among them.
-- Raises: WH001, WH002 (a line that does not belong to an export), WH015 (others than the owner).
-- Locks: only what it writes. Writes: the rows.
CREATE OR REPLACE FUNCTION headwater.import_lines(
    namespace text, lines text[], first_line bigint DEFAULT 1, OUT events bigint, OUT rows bigint, OUT ending jsonb, caller headwater.caller DEFAULT current_user
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET intervalstyle = 'iso_8601' AS $$
#variable_conflict use_column
DECLARE
    ns     headwater_private.namespaces := headwater_private.open_namespace(import_lines.namespace, caller, 'owner');
    parsed jsonb;
    part   record;
    names  text;
    picked text;
    task   uuid;
BEGIN
    IF ns.created_at <> now() THEN
        PERFORM headwater_private.fail('WH002', format('namespace %L was not begun in this transaction', ns.namespace), jsonb_build_object('what', 'namespace', 'value', ns.namespace),
            'import into a new namespace: headwater.import_namespace, in the same transaction');
    END IF;
    BEGIN
        SELECT jsonb_agg(l.line::jsonb) INTO parsed FROM (SELECT unnest(import_lines.lines) AS line) l;
    EXCEPTION WHEN data_exception THEN
        FOR i IN 1 .. cardinality(import_lines.lines) LOOP
            BEGIN
                parsed := import_lines.lines[i]::jsonb;
            EXCEPTION WHEN data_exception THEN
                PERFORM headwater_private.fail('WH002', format('line %s is not JSON: %s', first_line + i - 1, left(lines[i], 80)),
                    jsonb_build_object('what', 'line', 'value', first_line + i - 1), 'the file is damaged: export it again');
            END;
        END LOOP;
        RAISE;
    END;
    SELECT l.kind, l.place INTO part
      FROM (SELECT x.line ->> 'kind' AS kind, x.line, x.place FROM jsonb_array_elements(parsed) WITH ORDINALITY AS x(line, place)) l
     WHERE coalesce(l.kind NOT IN ('event', 'streams', 'permanent_gaps', 'subscribers', 'settled_ahead', 'dead_letters', 'failing_events', 'losses', 'states', 'applied_events', 'imports',
                                   'due_events', 'schedules', 'queue_states', 'retries', 'end'), true)
        OR l.kind <> 'end' AND coalesce(jsonb_typeof(l.line -> 'row') <> 'object', true)
     LIMIT 1;
    IF FOUND THEN
        PERFORM headwater_private.fail('WH002', format('line %s is no line of an export', first_line + part.place - 1),
            jsonb_build_object('what', 'line', 'value', first_line + part.place - 1), 'the file is damaged, or of a newer version of Headwater');
    END IF;
    events := 0;
    rows := 0;
    BEGIN
        FOR part IN SELECT l.line ->> 'kind' AS kind, jsonb_agg(l.line ORDER BY l.place) AS lines, jsonb_agg(l.line -> 'row' ORDER BY l.place) AS rows, count(*) AS number
                      FROM jsonb_array_elements(parsed) WITH ORDINALITY AS l(line, place) GROUP BY 1
        LOOP
            IF part.kind = 'end' THEN
                ending := part.lines -> 0;
            ELSIF part.kind = 'event' THEN
                PERFORM headwater_private.import_events(ns.namespace_id, part.rows);
                events := part.number;
            ELSIF part.kind = 'queue_states' THEN
                rows := rows + part.number;
                PERFORM headwater_private.import_queue(ns.namespace_id, q.line) FROM jsonb_array_elements(part.rows) AS q(line);
            ELSIF part.kind = 'retries' THEN
                rows := rows + part.number;
                -- Their events tell their types, when all events have come.
                INSERT INTO headwater_private.retries (namespace_id, subscriber_id, number, sequences, event_types, attempts, failures, due_at, of_letter, suspect, uncounted)
                SELECT ns.namespace_id, r.subscriber_id, nextval('headwater_private.claim_numbers'), r.sequences, '{}', r.attempts, r.failures, r.due_at, r.of_letter,
                       r.suspect, r.uncounted
                  FROM jsonb_array_elements(part.rows) WITH ORDINALITY AS x(line, place)
                 CROSS JOIN LATERAL jsonb_populate_record(NULL::headwater_private.retries, x.line) r
                 ORDER BY x.place;
            ELSE
                rows := rows + part.number;
                -- A column that the export does not have takes its default. Numbers that this
                -- server hands out are its own. JSON's null becomes NULL on the way, which some
                -- columns refuse.
                SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum),
                       string_agg(CASE WHEN a.atttypid = 'jsonb'::regtype AND a.attnotnull THEN format('coalesce(r.%I, ''null'')', a.attname)
                                       WHEN part.kind = 'states' AND a.attname = 'state' THEN 'CASE WHEN x.line ? ''state_is_null'' THEN ''null'' ELSE r.state END'
                                       ELSE format('r.%I', a.attname) END, ', ' ORDER BY a.attnum)
                  INTO names, picked
                  FROM pg_attribute a
                 WHERE a.attrelid = format('headwater_private.%I', part.kind)::regclass AND a.attnum > 0 AND NOT a.attisdropped AND a.attidentity = ''
                   AND (part.rows -> 0 ? a.attname OR a.attname = 'namespace_id');
                IF part.kind = 'schedules' THEN
                    FOR i IN 0 .. part.number - 1 LOOP
                        -- Each task has its own id in the database, even if this is a copy.
                        task := (part.rows -> i::int ->> 'task_id')::uuid;
                        IF EXISTS (SELECT FROM headwater_private.schedules s WHERE s.task_id = task) THEN
                            task := headwater.uuid_v7();
                        END IF;
                        EXECUTE format('INSERT INTO headwater_private.schedules (%s) SELECT %s FROM jsonb_populate_record(NULL::headwater_private.schedules, $1) r', names, picked)
                          USING part.rows -> i::int || jsonb_build_object('namespace_id', ns.namespace_id, 'task_id', task) ||
                                CASE WHEN EXISTS (SELECT FROM pg_extension e WHERE e.extname = 'pg_cron') THEN '{}'::jsonb ELSE '{"trigger": "node"}' END;
                        INSERT INTO headwater_private.schedule_runs
                        SELECT r.* FROM jsonb_array_elements(part.lines -> i::int -> 'runs') x, jsonb_populate_record(NULL::headwater_private.schedule_runs,
                               x || jsonb_build_object('task_id', task)) r;
                        PERFORM headwater_private.set_cron_job(task);
                    END LOOP;
                ELSE
                    EXECUTE format('INSERT INTO headwater_private.%1$I (%2$s) SELECT %3$s FROM jsonb_array_elements($1) WITH ORDINALITY AS x(line, place)
                                     CROSS JOIN LATERAL jsonb_populate_record(NULL::headwater_private.%1$I, x.line || $2) r ORDER BY x.place', part.kind, names, picked)
                      USING part.rows, jsonb_build_object('namespace_id', ns.namespace_id);
                END IF;
            END IF;
        END LOOP;
    EXCEPTION WHEN data_exception OR integrity_constraint_violation THEN
        PERFORM headwater_private.fail('WH002', format('lines %s to %s do not fit: %s', first_line, first_line + cardinality(lines) - 1, SQLERRM),
            jsonb_build_object('what', 'line', 'value', first_line), 'the file is damaged: export it again');
    END;
END
$$;
