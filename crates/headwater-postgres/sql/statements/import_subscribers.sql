-- Makes subscribers that go on where those of another event bus stopped.
SELECT * FROM headwater.import_subscribers($1, $2, $3, $4)
