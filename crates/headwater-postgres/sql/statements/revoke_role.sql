-- Takes grants of a role back.
SELECT headwater.revoke_role($1, $2, $3)
