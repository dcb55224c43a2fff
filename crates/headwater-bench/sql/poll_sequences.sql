-- What a poller reads: a page of the log, of which the sequence is enough for the benchmark.
SELECT global_sequence
  FROM headwater.log_page($1, $2, NULL, $3::int, NULL, NULL, NULL)
