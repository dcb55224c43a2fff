-- headwater.count_month(namespace, month)
-- Public: in docs/sql.md.
-- Counts the events of a sealed month, which trim_month needs to know. It is a statement of its own
-- because it reads the whole month, and trim_month keeps subscribers waiting. `month` is any time
-- in it.
-- Raises: WH001, WH002. Locks: the month's row. Writes: the month's row.
CREATE OR REPLACE FUNCTION headwater.count_month(namespace text, month timestamptz, caller headwater.caller DEFAULT current_user)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ns     headwater_private.namespaces := headwater_private.open_namespace(count_month.namespace, caller, NULL);
    m      headwater_private.months;
    number bigint;
    total  numeric;
BEGIN
    SELECT s.* INTO m FROM headwater_private.months s
     WHERE s.namespace_id = ns.namespace_id AND s.starts_at <= count_month.month AND s.ends_at > count_month.month;
    IF NOT FOUND THEN
        PERFORM headwater_private.fail('WH002', format('month %s is not sealed', coalesce(count_month.month::text, 'NULL')),
            jsonb_build_object('what', 'month', 'value', count_month.month), 'seal past months first: SELECT headwater.seal_months(''namespace'')');
    END IF;
    IF m.events IS NULL THEN
        EXECUTE format('SELECT count(*), coalesce(sum(global_sequence), 0) FROM headwater_private.%I WHERE namespace_id = $1', m.leaf)
           INTO number, total USING ns.namespace_id;
        UPDATE headwater_private.months s SET events = number, sequence_sum = total
         WHERE s.namespace_id = m.namespace_id AND s.starts_at = m.starts_at;
    END IF;
    RETURN coalesce(m.events, number);
END
$$;
