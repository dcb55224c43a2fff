-- headwater_private.need_month(ns, at)
-- An append calls this when its time lies behind the months that the namespace's row knows to
-- exist. If the month exists, this records that, and waits for nobody. Otherwise it creates the
-- month. Where maintenance runs, that never happens: maintenance creates months long before they
-- are needed. A transaction that creates a month holds a lock until it ends, and every other append
-- that needs the same month must wait for it: for at most 5 seconds, or lock_timeout if that is
-- shorter.
-- Raises: 55P03 if somebody takes longer than that to create the month; the error names them.
-- Locks, writes: see create_leaf, prepare_months.
CREATE OR REPLACE FUNCTION headwater_private.need_month(ns headwater_private.namespaces, at timestamptz)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    patience constant text := current_setting('lock_timeout');
    until_at constant timestamptz := (date_trunc('month', at AT TIME ZONE 'UTC') + interval '1 month') AT TIME ZONE 'UTC';
    parent   constant text := format('headwater_private.%I', headwater_private.log_table(ns));
    holders  jsonb;
BEGIN
    IF ns.storage = 'own' THEN
        -- Its months concern nobody else.
        PERFORM headwater_private.prepare_months(ns, at, true);
    END IF;
    IF EXISTS (SELECT FROM headwater_private.missing_months(ns.namespace_id, ns.sealed_before, until_at)) THEN
        BEGIN
            PERFORM set_config('lock_timeout', least(nullif(s.setting::int, 0), 5000)::text, true)
               FROM pg_catalog.pg_settings s WHERE s.name = 'lock_timeout';
            PERFORM headwater_private.create_leaf(ns.namespace_id, m.starts_at)
               FROM headwater_private.missing_months(ns.namespace_id, ns.sealed_before, until_at) m;
            PERFORM set_config('lock_timeout', patience, true);
        EXCEPTION WHEN lock_not_available THEN
            PERFORM pg_stat_clear_snapshot();
            SELECT jsonb_agg(to_jsonb(h) ORDER BY h.since, h.pid) INTO holders
              FROM (SELECT DISTINCT l.pid, a.application_name, a.xact_start AS since
                      FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
                     WHERE l.locktype = 'relation' AND l.relation = parent::regclass AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
                       AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = current_database())
                       AND l.mode NOT IN ('AccessShareLock', 'RowShareLock', 'RowExclusiveLock')) h;
            PERFORM headwater_private.fail('55P03',
                format('month %s has no table yet, and another transaction keeps this one from making it%s', to_char(at AT TIME ZONE 'UTC', 'YYYY-MM'),
                       (SELECT string_agg(format(': %s (pid %s, since %s)', coalesce(nullif(h ->> 'application_name', ''), 'a session'),
                                                 coalesce(h ->> 'pid', 'none'), coalesce(h ->> 'since', 'unknown')), '')
                          FROM jsonb_array_elements(holders) h)),
                jsonb_build_object('month', to_char(at AT TIME ZONE 'UTC', 'YYYY-MM'), 'holders', coalesce(holders, '[]')),
                'append again; let the owner of the tables maintain the months ahead of time: `headwater months maintain`');
        END;
    END IF;
    IF ns.storage = 'shared' THEN
        PERFORM headwater_private.prepare_months(ns, at, false);
    END IF;
END
$$;
