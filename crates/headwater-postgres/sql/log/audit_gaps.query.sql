-- Lists events that lie in permanent gaps.
SELECT global_sequence, event_id
  FROM headwater.audit_gaps($1, $2)
