-- Returns what `headwater doctor` checks in the namespaces, one row each. $1: for how many days it
-- reports a loss.
SELECT * FROM headwater.doctor_namespaces($1)
