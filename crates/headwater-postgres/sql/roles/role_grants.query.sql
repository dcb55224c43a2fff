-- Lists the grants in a namespace, or in all namespaces.
SELECT namespace, role, kind, granted_at FROM headwater.role_grants($1)
