-- The members of a group that are alive, as far as their leases tell.
SELECT node, incarnation FROM headwater.members
 WHERE namespace_id = $1 AND subscriber_id = $2 AND member_until > clock_timestamp()
 ORDER BY node, incarnation
