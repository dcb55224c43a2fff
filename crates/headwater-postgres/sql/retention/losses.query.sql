-- Lists what was trimmed before subscribers, or one subscriber, had handled it, newest first.
SELECT * FROM headwater.list_losses($1, $2)
