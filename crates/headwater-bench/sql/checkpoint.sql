-- What the last contender left dirty is not written at the next one's expense.
CHECKPOINT
