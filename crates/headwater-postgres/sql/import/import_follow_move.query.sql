-- Moves an import that follows its table to its next state.
SELECT headwater.import_follow_move($1, $2, $3, $4, $5)
