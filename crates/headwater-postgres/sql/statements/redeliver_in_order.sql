-- Has events delivered that were poison and are repaired, in order to those that are active.
SELECT r.moved, r.late FROM headwater.redeliver_in_order($1, $2) r
