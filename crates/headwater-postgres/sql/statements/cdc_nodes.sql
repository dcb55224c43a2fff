-- What the live sources of nodes do, as they said, unless it can be seen that this is over.
SELECT * FROM headwater.cdc_status()
