-- A claim that names types takes a run of the log without a look at it, as one that names none does, if it wants all that is in it
-- (functions/run_of_types.sql).
-- Frozen once shipped.

-- What the claim named that saw the log up to `known`: all events up to there are of these types, which are no patterns.
-- NULL: it named none, or too many.
ALTER TYPE headwater_private.queue_state ADD ATTRIBUTE known_of text[];

-- It is told which tables there are: who asks it looks them up for itself, too.
DROP FUNCTION IF EXISTS headwater_private.heads_query(int[]);
