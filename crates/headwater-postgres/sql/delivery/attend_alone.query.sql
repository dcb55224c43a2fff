-- Records that a node handles the events of subscribers that have no owner.
SELECT headwater.attend_alone($1, $2, $3::text[]::jsonb[], $4)
