-- Records whether commits reach the inbox at once.
SELECT headwater.cdc_caught_up($1, $2, $3)
