-- Lists what the live sources of nodes do, as they reported, unless it is visible that this is
-- over.
SELECT * FROM headwater.cdc_status()
