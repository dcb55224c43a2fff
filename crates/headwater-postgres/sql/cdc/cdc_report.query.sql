-- Reports what a node's live source does.
SELECT headwater.cdc_report($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
