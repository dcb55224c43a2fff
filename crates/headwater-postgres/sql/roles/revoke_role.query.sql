-- Takes grants back from a role.
SELECT headwater.revoke_role($1, $2, $3)
