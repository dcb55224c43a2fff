-- Schedules of all namespaces.
SELECT * FROM headwater.all_schedules()
