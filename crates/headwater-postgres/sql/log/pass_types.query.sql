-- Returns how far a subscriber that asks for some types may move at once, if the server is in the
-- given history.
SELECT reach, events, sequence_sum FROM headwater.pass_types($1, $2, $3, $4) WHERE headwater.require_history($5)
