-- Deletes the notes of events that all checkpoints of the subscriber have passed.
SELECT headwater.forget_applied($1, $2)
