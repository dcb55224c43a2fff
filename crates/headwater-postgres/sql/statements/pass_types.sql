-- What a subscriber that asks for some types may pass at once, in a history only.
SELECT reach, events, sequence_sum FROM headwater.pass_types($1, $2, $3, $4) WHERE headwater.require_history($5)
