-- Whether events of a key wait: behind a letter that parks it, or a parked one, as in load_subscriber.sql.
-- In a history only.
SELECT * FROM headwater.is_parked($1, $2, $3, $4)
 WHERE headwater.require_history($5)
