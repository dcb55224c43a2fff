-- Takes one step of a move of a namespace to other storage.
SELECT step, events, behind FROM headwater.set_storage($1, $2)
