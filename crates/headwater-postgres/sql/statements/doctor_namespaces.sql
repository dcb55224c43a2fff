-- What `headwater doctor` looks at of the namespaces, a row each. $1: how many days a loss is spoken of.
SELECT * FROM headwater.doctor_namespaces($1)
