-- Lists what contradicts the laws in a namespace.
SELECT fault, name, first_sequence, last_sequence, detail, mended_by FROM headwater.faults($1)
