-- Works on the index by type of a namespace, or of any if it is NULL: some rows at a time.
SELECT headwater.maintain_index($1)
