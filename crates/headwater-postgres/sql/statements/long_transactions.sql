-- Transactions whose events after a cursor are far apart, in order of the first, as this snapshot shows them. All after the cursor is scanned, once: no index
-- tells a transaction's events, since every append would pay for it. $5 and $6 as in headwater.log_page.
-- In a history only.
SELECT * FROM headwater.long_transactions($1, $2, $3, $4, $5, $6)
 WHERE headwater.require_history($7)
