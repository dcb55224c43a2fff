-- Works on the type index of a namespace, or of any namespace if it is NULL, some rows at a time.
SELECT headwater.maintain_index($1)
