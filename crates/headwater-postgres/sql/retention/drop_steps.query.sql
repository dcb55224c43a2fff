-- Lists the remaining steps for the leaves of trimmed months.
SELECT starts_at, leaf, step, statement FROM headwater.drop_steps($1)
