-- Lists who holds back appends or deliveries.
SELECT holds, name, pid, application_name, role, granted, since, extract(epoch FROM age)::float8 AS age, waiting,
       extract(epoch FROM waiting_for)::float8 AS waiting_for, above_sequence, ended_by
  FROM headwater.holders($1)
