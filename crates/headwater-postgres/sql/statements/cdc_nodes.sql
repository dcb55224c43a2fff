-- What the live sources of nodes do, as they said.
SELECT * FROM headwater.cdc_status()
