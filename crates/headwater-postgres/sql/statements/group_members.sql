-- The members of a group that are alive, as far as their leases tell.
SELECT * FROM headwater.group_members($1, $2)
