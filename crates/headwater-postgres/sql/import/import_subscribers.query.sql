-- Creates subscribers that continue where those of another event bus stopped.
SELECT * FROM headwater.import_subscribers($1, $2, $3, $4)
