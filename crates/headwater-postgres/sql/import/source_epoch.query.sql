-- Returns the tables of epoch, by the names that they have had.
SELECT (SELECT to_regclass(t.name)::text FROM unnest(ARRAY['epoch_events', 'events']) WITH ORDINALITY AS t(name, nth)
         WHERE to_regclass(t.name) IS NOT NULL ORDER BY t.nth LIMIT 1) AS events,
       (SELECT to_regclass(t.name)::text FROM unnest(ARRAY['epoch_event_bus_checkpoints', 'event_bus_checkpoints']) WITH ORDINALITY AS t(name, nth)
         WHERE to_regclass(t.name) IS NOT NULL ORDER BY t.nth LIMIT 1) AS checkpoints,
       (SELECT to_regclass(t.name)::text FROM unnest(ARRAY['epoch_event_bus_dlq', 'event_bus_dlq']) WITH ORDINALITY AS t(name, nth)
         WHERE to_regclass(t.name) IS NOT NULL ORDER BY t.nth LIMIT 1) AS letters
