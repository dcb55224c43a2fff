-- What was trimmed before subscribers, or one, had handled it, the newest first.
SELECT * FROM headwater.list_losses($1, $2)
