-- Loads a subscriber with its whole ledger, in one snapshot, if the server is in the given history.
-- load_subscriber.sql says what that includes.
SELECT * FROM headwater.load_subscriber($1, $2, $3), headwater.ledger_chunks($1, $2, $3)
 WHERE headwater.require_history($4)
