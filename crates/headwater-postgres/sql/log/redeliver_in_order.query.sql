-- Delivers repaired poison again, to active subscribers in order.
SELECT r.moved, r.late FROM headwater.redeliver_in_order($1, $2) r
