-- Lists the members of a group whose leases still run.
SELECT * FROM headwater.group_members($1, $2)
