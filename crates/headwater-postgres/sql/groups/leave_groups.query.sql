-- Ends an instance's membership in groups.
SELECT headwater.leave_groups($1, $2, $3)
