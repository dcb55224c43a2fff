-- headwater_private.bundle_end(ns, sequences, keys, transaction_ids)
-- Returns a sequence beyond which these bundles have no events. A bundle is what one transaction
-- appended for one key. No index tells where a transaction ends, because every append would pay for
-- it. So the log after the first of these events is scanned once for bundles that are spread over
-- more than 1,000 sequences; all other bundles end within that distance. The result of the scan is
-- kept in bundle_scans, for the next pages and for the other partitions.
-- Raises: WH001, WH006. Locks: nothing. Writes: bundle_scans, if no scan in it covers these events.
CREATE OR REPLACE FUNCTION headwater_private.bundle_end(
    ns headwater_private.namespaces, sequences bigint[], keys text[], transaction_ids bigint[]
) RETURNS bigint LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    long_span constant bigint := 1000;
    most      constant int := 10000;
    lowest    bigint;
    highest   bigint;
    scan      headwater_private.bundle_scans;
    safe      bigint;
    bounds    record;
    unnamed   bigint;
BEGIN
    SELECT min(s), max(s) INTO lowest, highest FROM unnest(sequences) s;
    SELECT b.* INTO scan FROM headwater_private.bundle_scans b
     WHERE b.namespace_id = ns.namespace_id AND b.after_sequence < lowest AND b.up_to_sequence >= highest
     ORDER BY b.up_to_sequence DESC LIMIT 1;
    IF NOT FOUND THEN
        SELECT h.horizon INTO safe FROM headwater_private.horizon_of(ns.namespace_id) h;
        SELECT l.* INTO bounds FROM headwater_private.log_bounds(ns.namespace_id, lowest - 1, NULL, NULL) l;
        SELECT coalesce(array_agg(g.key ORDER BY g.first), '{}'), coalesce(array_agg(g.transaction_id ORDER BY g.first), '{}'),
               coalesce(array_agg(g.last ORDER BY g.first), '{}'), CASE WHEN count(*) = most THEN max(g.first) END
          INTO scan.order_keys, scan.transaction_ids, scan.last_sequences, unnamed
          FROM (SELECT p.key COLLATE "C" AS key, p.transaction_id, min(p.first_sequence) AS first, max(p.last_sequence) AS last
                  FROM headwater_private.by_month(
                           NULL::headwater_private.span,
                           'SELECT coalesce(e.key, e.stream_id), e.transaction_id, min(e.global_sequence), max(e.global_sequence) FROM %s e
                             WHERE %s AND e.namespace_id = $1 AND e.global_sequence >= $2 AND e.recorded_at >= $5
                               AND (e.key IS NOT NULL OR e.stream_id IS NOT NULL)
                             GROUP BY 1, 2', ns.namespace_id, lowest, from_at => bounds.from_at) p
                 GROUP BY p.key COLLATE "C", p.transaction_id
                HAVING max(p.last_sequence) - min(p.first_sequence) >= long_span
                 ORDER BY min(p.first_sequence) LIMIT most) g;
        scan.namespace_id := ns.namespace_id;
        scan.after_sequence := lowest - 1;
        scan.up_to_sequence := least(safe, unnamed - 1);
        IF scan.up_to_sequence > scan.after_sequence THEN
            -- Delete scans that say no more than this one, and scans that every subscriber has
            -- passed.
            DELETE FROM headwater_private.bundle_scans b
             USING (SELECT o.scan_id FROM headwater_private.bundle_scans o
                     WHERE o.namespace_id = ns.namespace_id
                       AND (o.after_sequence >= scan.after_sequence AND o.up_to_sequence <= scan.up_to_sequence
                            OR o.up_to_sequence < (SELECT min(s.position) FROM headwater_private.subscribers s WHERE s.namespace_id = ns.namespace_id))
                       FOR UPDATE SKIP LOCKED) o
             WHERE b.namespace_id = ns.namespace_id AND b.scan_id = o.scan_id;
            INSERT INTO headwater_private.bundle_scans (namespace_id, after_sequence, up_to_sequence, order_keys, transaction_ids, last_sequences)
            VALUES (scan.namespace_id, scan.after_sequence, scan.up_to_sequence, scan.order_keys, scan.transaction_ids, scan.last_sequences);
        END IF;
        -- There are so many long bundles that the scan did not list those of the last events: the
        -- caller must read to the end.
        IF highest >= unnamed THEN
            RETURN 9223372036854775807;
        END IF;
    END IF;
    RETURN (SELECT max(coalesce(l.last, b.first + long_span - 1))
              FROM (SELECT q.key, q.transaction_id, min(q.sequence) AS first
                      FROM unnest(sequences, keys, transaction_ids) AS q(sequence, key, transaction_id)
                     WHERE q.sequence IS NOT NULL GROUP BY q.key, q.transaction_id) b
              LEFT JOIN unnest(scan.order_keys, scan.transaction_ids, scan.last_sequences) AS l(key, transaction_id, last)
                ON l.key = b.key COLLATE "C" AND l.transaction_id = b.transaction_id);
END
$$;
