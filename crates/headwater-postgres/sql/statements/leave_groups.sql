-- An instance is a member no more.
SELECT headwater.leave_groups($1, $2, $3)
